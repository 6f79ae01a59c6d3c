import {
  Alias,
  Gateway,
  Model,
  ModelVersion,
  Replica,
  StageEvent,
  Tenant,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { checkShape, type MessageShape } from "./json-shape.js";
import type { RecordKey } from "./keys.js";
import {
  aliasProblems,
  gatewayProblems,
  modelProblems,
  replicaProblems,
  stageProblems,
  tenantProblems,
} from "./record-rules.js";
import {
  aliasShape,
  gatewayShape,
  modelShape,
  replicaShape,
  stageShape,
  tenantShape,
  versionShape,
} from "./record-shapes.js";
import { RuleReport } from "./rule-report.js";
import { versionProblems } from "./version-rules.js";

/** A record with its kind, which is also the kind of its key. */
export type RegistryRecord =
  | { readonly kind: "model"; readonly value: Model }
  | { readonly kind: "version"; readonly value: ModelVersion }
  | { readonly kind: "stage"; readonly value: StageEvent }
  | { readonly kind: "alias"; readonly value: Alias }
  | { readonly kind: "tenant"; readonly value: Tenant }
  | { readonly kind: "replica"; readonly value: Replica }
  | { readonly kind: "gateway"; readonly value: Gateway };

export interface ParsedRecord {
  /** Undefined when the text is not a valid record; `errors` says why. */
  readonly record: RegistryRecord | undefined;
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/** Larger values are not even parsed. */
const TEXT_MAX_CHARS = 1024 * 1024;

/** Reads what lies under a key: proto3 JSON, checked strictly and by the record's own rules. Never throws. */
export function parseRecord(key: RecordKey, text: string): ParsedRecord {
  if (text.length > TEXT_MAX_CHARS) {
    return refused(`the record has ${text.length} characters, but at most ${TEXT_MAX_CHARS} are read; make it smaller`);
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    return refused(`the record is not JSON (${(error as Error).message}); write proto3 JSON of its message`);
  }
  const shape = checkShape(json, shapeOf(key.kind));
  const warnings = shape.unknown.map((field) => `${field} is not known here and is ignored; check its spelling`);
  if (shape.errors.length > 0) return { record: undefined, errors: shape.errors, warnings };
  const record = decode(key.kind, json);
  const errors = recordProblems(key, record);
  return { record: errors.length === 0 ? record : undefined, errors, warnings };
}

/** What is wrong with a record under its key, whatever else the registry holds; empty when nothing. */
export function recordProblems(key: RecordKey, record: RegistryRecord): string[] {
  return [...keyProblems(key, record), ...ownProblems(record)];
}

/** The text that is stored: proto3 JSON, so that `etcdctl get` is readable. */
export function formatRecord(record: RegistryRecord): string {
  return JSON.stringify(encode(record));
}

function refused(error: string): ParsedRecord {
  return { record: undefined, errors: [error], warnings: [] };
}

function shapeOf(kind: RecordKey["kind"]): MessageShape {
  switch (kind) {
    case "model":
      return modelShape;
    case "version":
      return versionShape;
    case "stage":
      return stageShape;
    case "alias":
      return aliasShape;
    case "tenant":
      return tenantShape;
    case "replica":
      return replicaShape;
    case "gateway":
      return gatewayShape;
  }
}

function decode(kind: RecordKey["kind"], json: unknown): RegistryRecord {
  switch (kind) {
    case "model":
      return { kind, value: Model.fromJSON(json) };
    case "version":
      return { kind, value: ModelVersion.fromJSON(json) };
    case "stage":
      return { kind, value: StageEvent.fromJSON(json) };
    case "alias":
      return { kind, value: Alias.fromJSON(json) };
    case "tenant":
      return { kind, value: Tenant.fromJSON(json) };
    case "replica":
      return { kind, value: Replica.fromJSON(json) };
    case "gateway":
      return { kind, value: Gateway.fromJSON(json) };
  }
}

function encode(record: RegistryRecord): unknown {
  switch (record.kind) {
    case "model":
      return Model.toJSON(record.value);
    case "version":
      return ModelVersion.toJSON(record.value);
    case "stage":
      return StageEvent.toJSON(record.value);
    case "alias":
      return Alias.toJSON(record.value);
    case "tenant":
      return Tenant.toJSON(record.value);
    case "replica":
      return Replica.toJSON(record.value);
    case "gateway":
      return Gateway.toJSON(record.value);
  }
}

function ownProblems(record: RegistryRecord): string[] {
  switch (record.kind) {
    case "model":
      return modelProblems(record.value);
    case "version":
      return versionProblems(record.value);
    case "stage":
      return stageProblems(record.value);
    case "alias":
      return aliasProblems(record.value);
    case "tenant":
      return tenantProblems(record.value);
    case "replica":
      return replicaProblems(record.value);
    case "gateway":
      return gatewayProblems(record.value);
  }
}

/** A record says again what its key says, so that a copy under a wrong key is noticed. */
function keyProblems(key: RecordKey, record: RegistryRecord): string[] {
  const report = new RuleReport();
  if (key.kind === "model" && record.kind === "model") report.matchesKey("name", record.value.name, key.model);
  if (key.kind === "tenant" && record.kind === "tenant") report.matchesKey("name", record.value.name, key.tenant);
  if (key.kind === "gateway" && record.kind === "gateway") report.matchesKey("name", record.value.name, key.gateway);
  if (key.kind === "alias" && record.kind === "alias") {
    report.matchesKey("model", record.value.model, key.model);
    report.matchesKey("alias", record.value.alias, key.alias);
  }
  if (key.kind === "version" && record.kind === "version") {
    report.matchesKey("model", record.value.model, key.model);
    report.matchesKey("version", record.value.version, key.version);
  }
  if (key.kind === "stage" && record.kind === "stage") {
    report.matchesKey("model", record.value.model, key.model);
    report.matchesKey("version", record.value.version, key.version);
    report.matchesKey("seq", record.value.seq, key.seq);
  }
  if (key.kind === "replica" && record.kind === "replica") {
    report.matchesKey("model", record.value.model, key.model);
    report.matchesKey("version", record.value.version, key.version);
    report.matchesKey("id", record.value.id, key.id);
  }
  return report.problems;
}
