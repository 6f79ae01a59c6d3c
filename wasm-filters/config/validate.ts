import { isAliasName, isModelName } from "@servemesh/proto/model-ref";
import {
  H_API_KEY,
  H_AUTHORIZATION,
  H_CONTENT_LENGTH,
  H_CONTENT_TYPE,
  INTERNAL_PREFIX,
  MAX_TIMEOUT_MS,
} from "@servemesh/proto/names";
import {
  GATE_LIMITS,
  type GateAlias,
  type GateConfig,
  GateConfigError,
  type GateModel,
  type GateTenant,
} from "./gate-config.js";

const VERSION_MAX = 2n ** 63n - 1n;
const DIGEST_BYTES = 32;
/** Token of RFC 9110 in lower case, as HTTP/2 wants header names. */
const HEADER_NAME = /^[a-z0-9!#$%&'*+.^_`|~-]+$/;
const CLUSTER_NAME = /^[!-~]+$/;
/** Headers that carry something else; copying a credential for a hash would leak it upstream. */
const NEVER_STICKY = new Set([H_AUTHORIZATION, H_API_KEY, H_CONTENT_TYPE, H_CONTENT_LENGTH, "cookie", "host", "te"]);

/** Throws a GateConfigError at the first field that the module could not represent or that would be unsafe. */
export function validateGateConfig(config: GateConfig): void {
  atMost("models", config.models.length, GATE_LIMITS.models);
  atMost("tenants", config.tenants.length, GATE_LIMITS.tenants);
  unique("models", config.models, (model) => model.name);
  unique("tenants", config.tenants, (tenant) => tenant.name);
  for (const [index, model] of config.models.entries()) validateModel(`models[${index}]`, model);
  const owners = new Map<string, string>();
  for (const [index, tenant] of config.tenants.entries()) validateTenant(`tenants[${index}]`, tenant, owners);
  const lists = [
    ...config.models.map((model) => model.allowedTenants),
    ...config.tenants.map((tenant) => tenant.models),
  ];
  atMost(
    "entries of all allow lists",
    lists.reduce((sum, list) => sum + list.length, 0),
    GATE_LIMITS.allowListEntries,
  );
}

function validateModel(path: string, model: GateModel): void {
  if (!isModelName(model.name)) fail(`${path}.name`, shown(model.name), "match [a-z0-9][a-z0-9._-]{0,62}");
  const at = `${path} (${model.name})`;
  if (!isAliasName(model.defaultAlias)) {
    fail(`${at}.defaultAlias`, shown(model.defaultAlias), "match [a-z][a-z0-9-]{0,31}");
  }
  validateDeadline(`${at}.deadlineMs`, model.deadlineMs);
  if (model.stickyHeader !== "") validateStickyHeader(`${at}.stickyHeader`, model.stickyHeader);
  atMost(`${at}.aliases`, model.aliases.length, GATE_LIMITS.aliasesPerModel);
  atMost(`${at}.versions`, model.versions.length, GATE_LIMITS.versionsPerModel);
  unique(`${at}.aliases`, model.aliases, (alias) => alias.name);
  unique(`${at}.versions`, model.versions, (version) => String(version));
  for (const [index, alias] of model.aliases.entries()) validateAlias(`${at}.aliases[${index}]`, alias);
  model.versions.forEach((version, index) => {
    if (typeof version !== "bigint" || version < 1n || version > VERSION_MAX) {
      fail(`${at}.versions[${index}]`, String(version), `be a bigint from 1 to ${VERSION_MAX}`);
    }
  });
}

function validateAlias(path: string, alias: GateAlias): void {
  if (!isAliasName(alias.name)) fail(`${path}.name`, shown(alias.name), "match [a-z][a-z0-9-]{0,31}");
  if (alias.deadlineMs !== undefined) validateDeadline(`${path}.deadlineMs`, alias.deadlineMs);
  const cluster = alias.shadowCluster;
  if (cluster === undefined) return;
  if (!CLUSTER_NAME.test(cluster) || cluster.length > GATE_LIMITS.shadowClusterChars) {
    fail(`${path}.shadowCluster`, shown(cluster), `be 1 to ${GATE_LIMITS.shadowClusterChars} visible ASCII characters`);
  }
}

function validateTenant(path: string, tenant: GateTenant, owners: Map<string, string>): void {
  if (!isModelName(tenant.name)) fail(`${path}.name`, shown(tenant.name), "match [a-z0-9][a-z0-9._-]{0,62}");
  const at = `${path} (${tenant.name})`;
  if (tenant.priority !== "interactive" && tenant.priority !== "batch") {
    fail(`${at}.priority`, shown(String(tenant.priority)), "be interactive or batch");
  }
  atMost(`${at}.keyDigests`, tenant.keyDigests.length, GATE_LIMITS.keysPerTenant);
  tenant.keyDigests.forEach((digest, index) => {
    const field = `${at}.keyDigests[${index}]`;
    if (digest.byteLength !== DIGEST_BYTES) {
      fail(field, `${digest.byteLength} bytes long`, `be a SHA-256 digest of ${DIGEST_BYTES} bytes`);
    }
    const key = Buffer.from(digest).toString("hex");
    const owner = owners.get(key);
    // The digest itself is not shown: it is no secret, but it has no business in logs.
    if (owner !== undefined)
      fail(field, `the key of tenant ${owner} too`, "belong to one tenant only; create a new key");
    owners.set(key, tenant.name);
  });
}

function validateDeadline(field: string, deadlineMs: number): void {
  if (!Number.isInteger(deadlineMs) || deadlineMs < 1 || deadlineMs > MAX_TIMEOUT_MS) {
    fail(field, String(deadlineMs), `be whole milliseconds from 1 to ${MAX_TIMEOUT_MS}`);
  }
}

function validateStickyHeader(field: string, name: string): void {
  if (!HEADER_NAME.test(name) || name.length > GATE_LIMITS.stickyHeaderChars) {
    fail(field, shown(name), `be a header name in lower case of at most ${GATE_LIMITS.stickyHeaderChars} characters`);
  }
  if (NEVER_STICKY.has(name) || name.startsWith(INTERNAL_PREFIX)) {
    fail(field, shown(name), "be a header of its own that clients send, such as x-predict-sticky-key");
  }
}

function unique<T>(field: string, items: readonly T[], key: (item: T) => string): void {
  const seen = new Map<string, number>();
  items.forEach((item, index) => {
    const first = seen.get(key(item));
    if (first !== undefined)
      fail(`${field}[${index}]`, `a repetition of [${first}], ${shown(key(item))}`, "be given once");
    seen.set(key(item), index);
  });
}

function atMost(field: string, count: number, limit: number): void {
  if (count > limit) throw new GateConfigError(`${field}: ${count} is more than the limit of ${limit}; remove some`);
}

function shown(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}...` : text);
}

function fail(field: string, problem: string, remedy: string): never {
  throw new GateConfigError(`${field} is ${problem}; it must ${remedy}`);
}
