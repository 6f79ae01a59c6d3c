import type {
  GetModelResponse,
  PutModelRequest,
  VersionSummary,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import {
  type Alias,
  type Gateway,
  type Model,
  type ModelVersion,
  Stage,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { formatKey } from "../registry/keys.js";
import type { Registry } from "../registry/registry.js";
import { RegistryError } from "../registry/registry-error.js";
import { referenceOf } from "../registry/registry-view.js";
import type { RegistryState, Revisioned } from "../registry/state.js";
import { compareAndSet, expectRevision } from "./compare-and-set.js";
import { checkModelName, checkPlainName, required, textToStore } from "./request-checks.js";

/** @returns the new revision of the record */
export async function putModel(registry: Registry, request: PutModelRequest): Promise<bigint> {
  const model = required("model", request.model);
  checkModelName("model.name", model.name);
  const key = { kind: "model", model: model.name } as const;
  const storeKey = formatKey(key);
  const value = textToStore(key, { kind: "model", value: model });
  const { revision } = await compareAndSet(registry, () => ({
    compares: expectRevision(registry, storeKey, request.expectedRevision, model.name),
    operations: [{ kind: "put", key: storeKey, value }],
    result: undefined,
  }));
  return revision;
}

/** Writes a gateway's listeners, whatever was there. @returns the new revision of the record */
export async function putGateway(registry: Registry, asked: Gateway | undefined): Promise<bigint> {
  const gateway = required("gateway", asked);
  checkPlainName("gateway.name", gateway.name);
  const key = { kind: "gateway", gateway: gateway.name } as const;
  const value = textToStore(key, { kind: "gateway", value: gateway });
  const { revision } = await compareAndSet(registry, () => ({
    compares: [],
    operations: [{ kind: "put", key: formatKey(key), value }],
    result: undefined,
  }));
  return revision;
}

/** All readable models by name. */
export function listModels({ state }: Registry): GetModelResponse[] {
  // Grouped once, because a registry may hold thousands of each.
  const parts = partsByModel(state);
  return [...state.models].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, held]) => summaryOf(held, parts(name)));
}

/** A model with its versions (by number), their stages and replicas (by id), and its aliases (by name). */
export function getModel({ state }: Registry, name: string): GetModelResponse {
  checkModelName("model", name);
  const held = state.models.get(name);
  if (held === undefined) throw unknownModel("model", name);
  return summaryOf(held, partsByModel(state)(name));
}

/** What belongs to one model. */
interface ModelParts {
  readonly versions: readonly VersionSummary[];
  readonly aliases: readonly Alias[];
}

function partsByModel(state: RegistryState): (model: string) => ModelParts {
  const replicas = groupBy(state.replicas, referenceOf);
  const versions = groupBy(state.versions, ({ model }) => model);
  const aliases = groupBy(state.aliases, ({ model }) => model);
  const summary = (version: ModelVersion): VersionSummary => ({
    version,
    stage: state.stages.get(referenceOf(version)) ?? Stage.STAGE_UNSPECIFIED,
    replicas: (replicas.get(referenceOf(version)) ?? []).sort((a, b) => (a.id < b.id ? -1 : 1)),
  });
  return (model) => ({
    versions: (versions.get(model) ?? []).sort((a, b) => (a.version < b.version ? -1 : 1)).map(summary),
    aliases: (aliases.get(model) ?? []).sort((a, b) => (a.alias < b.alias ? -1 : 1)),
  });
}

function summaryOf({ value, modRevision }: Revisioned<Model>, { versions, aliases }: ModelParts): GetModelResponse {
  return { model: value, versions: [...versions], aliases: [...aliases], revision: modRevision };
}

function groupBy<T>(records: ReadonlyMap<string, Revisioned<T>>, groupOf: (value: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const { value } of records.values()) {
    const group = groups.get(groupOf(value));
    if (group === undefined) groups.set(groupOf(value), [value]);
    else group.push(value);
  }
  return groups;
}

export function unknownModel(field: string, name: string): RegistryError {
  return new RegistryError("not_found", `${field}: ${name} is not registered; put the model first, or check the name`);
}
