import { BlobWriter } from "./blob-writer.js";
import { ALL, NONE, PRIORITY, RECORD_BYTES, SECTION } from "./format.js";
import { GATE_LIMITS, type GateConfig, GateConfigError, type GateModel, type GateTenant } from "./gate-config.js";
import { hashBytes, indexTable } from "./index-table.js";
import { validateGateConfig } from "./validate.js";

/**
 * Compiles the gate's configuration into the blob that the module parses in place (format.ts draws it).
 * The same configuration gives the same bytes whatever the order of its lists, so its hash can serve as its version.
 * Throws a GateConfigError that names the field.
 */
export function compileGateConfig(config: GateConfig): Uint8Array {
  validateGateConfig(config);
  const models = [...config.models].sort((a, b) => compareText(a.name, b.name));
  const tenants = [...config.tenants].sort((a, b) => compareText(a.name, b.name));
  const blob = new BlobWriter();
  writeModels(blob, models, tenants);
  writeTenants(blob, tenants, models);
  const bytes = blob.finish();
  if (bytes.length > GATE_LIMITS.blobBytes) {
    throw new GateConfigError(
      `the compiled configuration has ${bytes.length} bytes, the limit is ${GATE_LIMITS.blobBytes}; shorten the allow lists (use "*")`,
    );
  }
  return bytes;
}

function writeModels(blob: BlobWriter, models: readonly GateModel[], tenants: readonly GateTenant[]): void {
  const records = blob.section(SECTION.models, RECORD_BYTES.model, models.length);
  const aliases = blob.section(
    SECTION.aliases,
    RECORD_BYTES.alias,
    sum(models, (model) => model.aliases.length),
  );
  const versions = blob.section(
    SECTION.versions,
    RECORD_BYTES.version,
    sum(models, (model) => model.versions.length),
  );
  const tenantIndexes = indexesByName(tenants);
  const allowed = models.map((model) => allowList(model.allowedTenants, tenantIndexes));
  const lists = blob.section(
    SECTION.modelTenants,
    RECORD_BYTES.index,
    sum(allowed, (list) => list.indexes.length),
  );
  models.forEach((model, index) => {
    const sorted = [...model.aliases].sort((a, b) => compareText(a.name, b.name));
    const defaultAt = sorted.findIndex((alias) => alias.name === model.defaultAlias);
    const list = allowed[index] as AllowList;
    records
      .text(blob.intern(model.name))
      .text(blob.intern(model.stickyHeader))
      .u32(model.deadlineMs)
      .u32(defaultAt < 0 ? NONE : aliases.count + defaultAt)
      .u32(aliases.count)
      .u32(sorted.length)
      .u32(versions.count)
      .u32(model.versions.length)
      .u32(lists.count)
      .u32(list.all ? ALL : list.indexes.length)
      .endRecord();
    for (const alias of sorted) {
      aliases
        .text(blob.intern(alias.name))
        .text(blob.intern(alias.shadowCluster ?? ""))
        .u32(Math.min(alias.deadlineMs ?? model.deadlineMs, model.deadlineMs))
        .u32(0)
        .endRecord();
    }
    for (const version of [...model.versions].sort(compareBigint)) versions.u64(version).endRecord();
    for (const tenant of list.indexes) lists.u32(tenant).endRecord();
  });
  const table = indexTable(models.map((model) => hashBytes(Buffer.from(model.name))));
  const indexed = blob.section(SECTION.modelIndex, RECORD_BYTES.index, table.length);
  for (const slot of table) indexed.u32(slot).endRecord();
}

function writeTenants(blob: BlobWriter, tenants: readonly GateTenant[], models: readonly GateModel[]): void {
  const records = blob.section(SECTION.tenants, RECORD_BYTES.tenant, tenants.length);
  const modelIndexes = indexesByName(models);
  const allowed = tenants.map((tenant) => allowList(tenant.models, modelIndexes));
  const lists = blob.section(
    SECTION.tenantModels,
    RECORD_BYTES.index,
    sum(allowed, (list) => list.indexes.length),
  );
  const keys = tenants.flatMap((tenant, index) => tenant.keyDigests.map((digest) => ({ digest, tenant: index })));
  keys.sort((a, b) => Buffer.compare(a.digest, b.digest));
  tenants.forEach((tenant, index) => {
    const list = allowed[index] as AllowList;
    records
      .text(blob.intern(tenant.name))
      .u32(PRIORITY[tenant.priority])
      .u32(lists.count)
      .u32(list.all ? ALL : list.indexes.length)
      .u32(0)
      .endRecord();
    for (const model of list.indexes) lists.u32(model).endRecord();
  });
  const keyRecords = blob.section(SECTION.keys, RECORD_BYTES.key, keys.length);
  for (const key of keys) keyRecords.bytes(key.digest).u32(key.tenant).u32(0).endRecord();
  // A digest is as good as random, so its first four bytes are its hash.
  const table = indexTable(keys.map((key) => Buffer.from(key.digest).readUInt32LE(0)));
  const indexed = blob.section(SECTION.keyIndex, RECORD_BYTES.index, table.length);
  for (const slot of table) indexed.u32(slot).endRecord();
}

interface AllowList {
  readonly all: boolean;
  /** Ascending and without repetitions, for binary search; empty when `all`. */
  readonly indexes: readonly number[];
}

/** Names without a record are left out: nobody can be or ask for them, and one stale name must not block the others. */
function allowList(names: readonly string[], indexes: ReadonlyMap<string, number>): AllowList {
  if (names.includes("*")) return { all: true, indexes: [] };
  const known = names.map((name) => indexes.get(name)).filter((index) => index !== undefined);
  return { all: false, indexes: [...new Set(known)].sort((a, b) => a - b) };
}

function indexesByName(items: readonly { readonly name: string }[]): Map<string, number> {
  return new Map(items.map((item, index) => [item.name, index]));
}

function sum<T>(items: readonly T[], count: (item: T) => number): number {
  return items.reduce((total, item) => total + count(item), 0);
}

/** By code unit, which for these ASCII names is the byte order that the module's binary search uses. */
function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function compareBigint(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
