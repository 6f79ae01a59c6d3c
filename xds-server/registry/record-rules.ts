import { isIP } from "node:net";
import type {
  Alias,
  Gateway,
  Model,
  Replica,
  Shadow,
  StageEvent,
  Tenant,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { isAliasName, parseModelRef } from "@servemesh/proto/model-ref";
import {
  H_API_KEY,
  H_AUTHORIZATION,
  H_CONTENT_LENGTH,
  H_CONTENT_TYPE,
  INTERNAL_PREFIX,
  MAX_TIMEOUT_MS,
  PRIORITY_BATCH,
  PRIORITY_INTERACTIVE,
} from "@servemesh/proto/names";
import { isPlainName } from "./keys.js";
import { isLoopback, ROLE_GATEWAY, ROLE_SIDECAR } from "./node-roles.js";
import { RuleReport, shown } from "./rule-report.js";

/*
 * What a record may say whatever else the registry holds. What it may say in the present state (stages, other records)
 * is checked when it is written, and again by the plan. These rules are at least as strict as what the gate's
 * configuration takes, because one record that it refuses would block all others.
 */

const LIMITS = {
  ownerChars: 256,
  tenants: 10_000,
  models: 10_000,
  corsOrigins: 64,
  headerChars: 64,
  split: 64,
  fallback: 8,
  rolloutIdChars: 128,
  keys: 16,
  digestBytes: 32,
  detailChars: 1_024,
  reasonChars: 1_024,
  pathChars: 1_024,
  requestBytes: 256n * 1024n ** 2n,
  labels: 16,
  labelChars: 63,
  runtimeKeys: 256,
  runtimeChars: 256,
  runtimeTtlSecondsMin: 3,
  runtimeTtlSecondsMax: 86_400,
};

/** Token of RFC 9110 in lower case, as HTTP/2 wants header names. */
const HEADER_NAME = /^[a-z0-9!#$%&'*+.^_`|~-]+$/;
/** Headers that carry something else; copying a credential for a hash would leak it upstream. */
const NEVER_STICKY = new Set([H_AUTHORIZATION, H_API_KEY, H_CONTENT_TYPE, H_CONTENT_LENGTH, "cookie", "host", "te"]);
const KEY_ID = /^[a-zA-Z0-9]{1,32}$/;
const ROLLOUT_ID = /^[a-zA-Z0-9._-]*$/;
const ORIGIN = /^https?:\/\/[^/?#\s]+$/;

export function modelProblems(record: Model): string[] {
  const report = new RuleReport();
  report.textLength("owner", record.owner, LIMITS.ownerChars);
  report.check(
    record.defaultAlias === "" || isAliasName(record.defaultAlias),
    `default_alias ${shown(record.defaultAlias)} must match [a-z][a-z0-9-]{0,31}; empty means prod`,
  );
  checkDeadline("slo.deadline_ms", record.slo?.deadlineMs ?? 0, report);
  const availability = record.slo?.availability ?? 0;
  report.check(
    availability >= 0 && availability <= 1,
    `slo.availability is ${availability} but must be a share from 0 to 1, such as 0.999`,
  );
  checkNames("allowed_tenants", record.allowedTenants, LIMITS.tenants, report);
  checkStickyHeader(record.stickyHeader.toLowerCase(), report);
  report.atMost("cors_origins", record.corsOrigins.length, LIMITS.corsOrigins, "entries");
  for (const origin of record.corsOrigins) {
    report.check(ORIGIN.test(origin), `cors_origins: ${shown(origin)} is not an origin such as https://example.com`);
  }
  return report.problems;
}

function checkStickyHeader(name: string, report: RuleReport): void {
  if (name === "") return;
  const isUsable = HEADER_NAME.test(name) && name.length <= LIMITS.headerChars;
  report.check(
    isUsable && !NEVER_STICKY.has(name) && !name.startsWith(INTERNAL_PREFIX),
    `sticky_header ${shown(name)} must be a header of its own that clients send, of at most ${LIMITS.headerChars} characters, such as x-user-id`,
  );
}

export function aliasProblems(record: Alias): string[] {
  const report = new RuleReport();
  report.check(record.split.length > 0, "split is empty; name at least one version with a weight");
  report.atMost("split", record.split.length, LIMITS.split, "members");
  report.unique(
    "split.version",
    record.split.map((member) => member.version.toString()),
  );
  let sum = 0;
  for (const [index, { version, weight }] of record.split.entries()) {
    report.check(version > 0n, `split[${index}].version is ${version} but versions count from 1`);
    // Absent and 0 must never be mixed up: elsewhere this has turned 100:0 into 50:50.
    report.check(
      weight !== undefined,
      `split[${index}].weight of version ${version} is missing; write 0 to take the version out`,
    );
    sum += weight ?? 0;
  }
  const isComplete = record.split.every((member) => member.weight !== undefined);
  report.check(
    !isComplete || record.split.length === 0 || sum > 0,
    "split has no weight above 0; give at least one version a weight",
  );
  report.check(sum <= 2 ** 32 - 1, `the weights of split add up to ${sum}, above ${2 ** 32 - 1}; write smaller ones`);
  checkFallback(record, report);
  if (record.shadow !== undefined) checkShadow(record.shadow, report);
  checkDeadline("deadline_ms", record.deadlineMs, report);
  report.textLength("rollout_id", record.rolloutId, LIMITS.rolloutIdChars);
  report.check(
    ROLLOUT_ID.test(record.rolloutId),
    `rollout_id ${shown(record.rolloutId)} must match ${ROLLOUT_ID.source}`,
  );
  return report.problems;
}

function checkFallback({ fallback }: Alias, report: RuleReport): void {
  report.atMost("fallback", fallback.length, LIMITS.fallback, "entries");
  report.unique("fallback", fallback);
  for (const reference of fallback) {
    const parsed = parseModelRef(reference);
    if (!parsed.ok) report.check(false, `fallback: ${parsed.problem}`);
    else if (parsed.pin?.kind !== "version") {
      report.check(false, `fallback: ${shown(reference)} names no version; write for example ${parsed.model}:1`);
    }
  }
}

function checkShadow({ version, sample }: Shadow, report: RuleReport): void {
  report.check(version > 0n, `shadow.version is ${version} but versions count from 1`);
  report.check(
    sample >= 0 && sample <= 1,
    `shadow.sample is ${sample} but must be a share from 0 to 1; 0 means all requests for now`,
  );
}

export function tenantProblems(record: Tenant): string[] {
  const report = new RuleReport();
  checkNames("models", record.models, LIMITS.models, report);
  const priority = record.plan?.priority ?? "";
  report.check(
    ["", PRIORITY_INTERACTIVE, PRIORITY_BATCH].includes(priority),
    `plan.priority is ${shown(priority)} but must be ${PRIORITY_INTERACTIVE} or ${PRIORITY_BATCH}`,
  );
  report.atMost("keys", record.keys.length, LIMITS.keys, "keys");
  report.unique(
    "keys.id",
    record.keys.map((key) => key.id),
  );
  for (const [index, key] of record.keys.entries()) {
    report.check(KEY_ID.test(key.id), `keys[${index}].id ${shown(key.id)} must match ${KEY_ID.source}`);
    report.check(
      key.sha256.length === LIMITS.digestBytes,
      `keys[${index}].sha256 has ${key.sha256.length} bytes but must be a SHA-256 digest of ${LIMITS.digestBytes}`,
    );
  }
  return report.problems;
}

export function stageProblems(record: StageEvent): string[] {
  const report = new RuleReport();
  report.check(record.stage > 0, "stage is missing; write for example STAGE_STAGING");
  report.textLength("actor", record.actor, LIMITS.ownerChars);
  report.textLength("reason", record.reason, LIMITS.reasonChars);
  return report.problems;
}

export function replicaProblems(record: Replica): string[] {
  const report = new RuleReport();
  report.check(record.state > 0, "state is missing; write for example REPLICA_STATE_READY");
  report.check(isEndpoint(record.address), endpointProblem(record.address));
  report.textLength("detail", record.detail, LIMITS.detailChars);
  report.textLength("loaded_digest", record.loadedDigest, LIMITS.ownerChars);
  return report.problems;
}

export function gatewayProblems(record: Gateway): string[] {
  const report = new RuleReport();
  report.check(
    record.httpAddress === "" || isIP(record.httpAddress) !== 0,
    `http_address ${shown(record.httpAddress)} is not an IP address; write for example 127.0.0.1`,
  );
  for (const [field, port] of [
    ["http_port", record.httpPort],
    ["tls_port", record.tlsPort],
  ] as const) {
    report.check(port <= 65_535, `${field} is ${port} but a port is at most 65535`);
  }
  report.check(
    record.httpPort !== 0 || record.tlsPort !== 0,
    "http_port and tls_port are both 0, so no port would open; set one of them",
  );
  report.check(
    record.httpPort === 0 || record.httpPort !== record.tlsPort,
    `http_port and tls_port are both ${record.httpPort}; write two different ports`,
  );
  for (const [field, path] of [
    ["tls_certificate_file", record.tlsCertificateFile],
    ["tls_private_key_file", record.tlsPrivateKeyFile],
  ] as const) {
    report.textLength(field, path, LIMITS.pathChars);
    report.check(
      record.tlsPort === 0 || path.startsWith("/"),
      `${field} ${shown(path)} is not an absolute path, but tls_port needs a PEM file of the control plane`,
    );
  }
  report.check(
    record.maxRequestBytes <= LIMITS.requestBytes,
    `max_request_bytes ${record.maxRequestBytes} is above ${LIMITS.requestBytes}; write a smaller number, or 0 for 4 MiB`,
  );
  checkMeshFiles(record, report);
  checkGroup(record, report);
  checkRuntime(record, report);
  return report.problems;
}

/** How Envoys of the group prove to batchers who they are: three files, or none. */
function checkMeshFiles({ meshCertificateFile, meshPrivateKeyFile, meshCaFile }: Gateway, report: RuleReport): void {
  const files = [
    ["mesh_certificate_file", meshCertificateFile],
    ["mesh_private_key_file", meshPrivateKeyFile],
    ["mesh_ca_file", meshCaFile],
  ] as const;
  if (files.every(([, path]) => path === "")) return;
  for (const [field, path] of files) {
    report.textLength(field, path, LIMITS.pathChars);
    report.check(
      path.startsWith("/"),
      `${field} ${shown(path)} is not an absolute path, but the other files of the mesh are given; write all three, or none`,
    );
  }
}

/** Which Envoys a gateway record is for, and which models they learn of. */
function checkGroup({ role, labels, models, httpAddress }: Gateway, report: RuleReport): void {
  report.check(
    role === "" || role === ROLE_GATEWAY || role === ROLE_SIDECAR,
    `role ${shown(role)} is none; write ${ROLE_GATEWAY} or ${ROLE_SIDECAR}`,
  );
  report.check(
    role !== ROLE_SIDECAR || httpAddress === "" || isLoopback(httpAddress),
    `http_address ${shown(httpAddress)} is not on loopback, but a sidecar serves only the application beside it; write 127.0.0.1`,
  );
  report.atMost("labels", Object.keys(labels).length, LIMITS.labels, "entries");
  for (const [key, value] of Object.entries(labels)) {
    report.check(key !== "", "labels: a key is empty; give it a name");
    report.textLength(`labels[${shown(key)}]`, key.length > value.length ? key : value, LIMITS.labelChars);
  }
  report.atMost("models", models.length, LIMITS.models, "entries");
  report.unique("models", models);
  for (const model of models) {
    report.check(isPlainName(model), `models: ${shown(model)} is no model's name; write for example ranker`);
  }
}

/** Keys that Envoy's runtime can have: dotted names, as `upstream.healthy_panic_threshold`. */
const RUNTIME_KEY = /^[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*$/;

function checkRuntime({ runtime, runtimeTtlSeconds: ttl }: Gateway, report: RuleReport): void {
  report.check(
    ttl === 0 || (ttl >= LIMITS.runtimeTtlSecondsMin && ttl <= LIMITS.runtimeTtlSecondsMax),
    `runtime_ttl_seconds is ${ttl}; write ${LIMITS.runtimeTtlSecondsMin} to ${LIMITS.runtimeTtlSecondsMax}, or 0 for ever`,
  );
  report.atMost("runtime", Object.keys(runtime).length, LIMITS.runtimeKeys, "entries");
  for (const [key, value] of Object.entries(runtime)) {
    const field = `runtime[${shown(key)}]`;
    report.check(
      RUNTIME_KEY.test(key),
      `${field}: the key is no dotted name; write for example upstream.healthy_panic_threshold`,
    );
    report.textLength(field, key.length > value.length ? key : value, LIMITS.runtimeChars);
    report.check(value !== "", `${field} is empty; write a number, true, false or a text, or leave the key out`);
  }
}

/** `ip:port` or `[ipv6]:port`. Names are refused: endpoints that Envoy gets by EDS must be addresses. */
export function isEndpoint(address: string): boolean {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([0-9]{1,5})$/.exec(address);
  const port = Number(match?.[3]);
  return isIP(match?.[1] ?? match?.[2] ?? "") !== 0 && port >= 1 && port <= 65_535;
}

export function endpointProblem(address: string): string {
  return `address ${shown(address)} is not ip:port; write for example 127.0.0.1:19000`;
}

function checkDeadline(field: string, deadlineMs: number, report: RuleReport): void {
  report.check(
    deadlineMs <= MAX_TIMEOUT_MS,
    `${field} ${deadlineMs} is above ${MAX_TIMEOUT_MS} (ten minutes); write a smaller number`,
  );
}

/** An allow list: names, or `*` alone for all. */
function checkNames(field: string, names: readonly string[], limit: number, report: RuleReport): void {
  if (!report.atMost(field, names.length, limit, "entries")) return;
  report.unique(field, names);
  for (const name of names) {
    report.check(
      name === "*" || isPlainName(name),
      `${field}: ${shown(name)} must match [a-z0-9][a-z0-9._-]{0,62}, or be * for all`,
    );
  }
  report.check(
    !names.includes("*") || names.length === 1,
    `${field} holds * and names beside it; write only * for all, or only names`,
  );
}
