import { Span } from "../proxy-wasm/index";

/*
 * The configuration blob, read in place. config/format.ts draws it and says what each record holds; the offsets below
 * mirror it. config-parser.ts checks every offset, index and length once, so the request path needs no checks.
 */

/** No record. */
export const NONE: u32 = 0xffffffff;
/** Count of an allow list that allows all. */
export const ALL: u32 = 0xffffffff;

/** Sections by id, 1 to 10. */
export const STRINGS: u32 = 1;
export const MODELS: u32 = 2;
export const ALIASES: u32 = 3;
export const VERSIONS: u32 = 4;
export const TENANTS: u32 = 5;
export const KEYS: u32 = 6;
export const MODEL_TENANTS: u32 = 7;
export const TENANT_MODELS: u32 = 8;
export const MODEL_INDEX: u32 = 9;
export const KEY_INDEX: u32 = 10;
export const KNOWN_SECTIONS: u32 = 10;

/** Records of one kind. */
@unmanaged
export class Section {
  base: usize = 0;
  count: u32 = 0;
  stride: u32 = 0;

  record(index: u32): usize {
    return this.base + <usize>index * this.stride;
  }
}

@unmanaged
export class Config {
  /** The copy of the blob that all sections point into. */
  block: usize = 0;
  /** Streams that hold indexes into this configuration while they wait for their body. */
  pins: u32 = 0;
  /** No longer the current one: free it when the last pin goes. */
  retired: bool = false;
  strings: Section = new Section();
  models: Section = new Section();
  aliases: Section = new Section();
  versions: Section = new Section();
  tenants: Section = new Section();
  keys: Section = new Section();
  modelTenants: Section = new Section();
  tenantModels: Section = new Section();
  modelIndex: Section = new Section();
  keyIndex: Section = new Section();

  section(id: u32): Section {
    switch (id) {
      case STRINGS:
        return this.strings;
      case MODELS:
        return this.models;
      case ALIASES:
        return this.aliases;
      case VERSIONS:
        return this.versions;
      case TENANTS:
        return this.tenants;
      case KEYS:
        return this.keys;
      case MODEL_TENANTS:
        return this.modelTenants;
      case TENANT_MODELS:
        return this.tenantModels;
      case MODEL_INDEX:
        return this.modelIndex;
      default:
        return this.keyIndex;
    }
  }

  /** The text whose place is stored at `field`, into `into`. */
  text(field: usize, into: Span): void {
    into.set(this.strings.base + load<u32>(field), load<u32>(field, 4));
  }

  modelName(model: u32, into: Span): void {
    this.text(this.models.record(model), into);
  }

  /** Empty when the model has none. */
  stickyHeader(model: u32, into: Span): void {
    this.text(this.models.record(model) + 8, into);
  }

  modelDeadlineMs(model: u32): u32 {
    return load<u32>(this.models.record(model), 16);
  }

  /** Alias of a bare name, or NONE. */
  defaultAlias(model: u32): u32 {
    return load<u32>(this.models.record(model), 20);
  }

  aliasName(alias: u32, into: Span): void {
    this.text(this.aliases.record(alias), into);
  }

  /** Empty when the alias has no shadow. */
  shadowCluster(alias: u32, into: Span): void {
    this.text(this.aliases.record(alias) + 8, into);
  }

  aliasDeadlineMs(alias: u32): u32 {
    return load<u32>(this.aliases.record(alias), 16);
  }

  tenantName(tenant: u32, into: Span): void {
    this.text(this.tenants.record(tenant), into);
  }

  tenantIsBatch(tenant: u32): bool {
    return load<u32>(this.tenants.record(tenant), 8) !== 0;
  }

  /** Model of this name, or NONE. Constant time. */
  findModel(name: Span): u32 {
    const mask = this.modelIndex.count - 1;
    let slot = hashOf(name) & mask;
    while (true) {
      const entry = load<u32>(this.modelIndex.record(slot));
      if (entry === 0) return NONE;
      const record = this.models.record(entry - 1);
      if (
        load<u32>(record, 4) === name.length &&
        memory.compare(this.strings.base + load<u32>(record), name.pointer, name.length) === 0
      ) {
        return entry - 1;
      }
      slot = (slot + 1) & mask;
    }
  }

  /** Alias of the model with this name, or NONE. By binary search. */
  findAlias(model: u32, name: Span): u32 {
    const record = this.models.record(model);
    let low = load<u32>(record, 24);
    let high = low + load<u32>(record, 28);
    while (low < high) {
      const middle = (low + high) >>> 1;
      const alias = this.aliases.record(middle);
      const order = compareBytes(this.strings.base + load<u32>(alias), load<u32>(alias, 4), name.pointer, name.length);
      if (order === 0) return middle;
      if (order < 0) low = middle + 1;
      else high = middle;
    }
    return NONE;
  }

  hasVersion(model: u32, version: u64): bool {
    const record = this.models.record(model);
    let low = load<u32>(record, 32);
    let high = low + load<u32>(record, 36);
    while (low < high) {
      const middle = (low + high) >>> 1;
      const value = load<u64>(this.versions.record(middle));
      if (value === version) return true;
      if (value < version) low = middle + 1;
      else high = middle;
    }
    return false;
  }

  /** True when the model allows the tenant and the tenant the model. */
  allows(model: u32, tenant: u32): bool {
    const modelRecord = this.models.record(model);
    if (!listed(this.modelTenants, load<u32>(modelRecord, 40), load<u32>(modelRecord, 44), tenant)) return false;
    const tenantRecord = this.tenants.record(tenant);
    return listed(this.tenantModels, load<u32>(tenantRecord, 12), load<u32>(tenantRecord, 16), model);
  }

  /**
   * Tenant whose key has this SHA-256 digest, or NONE. Constant number of probes; each compares all 32 bytes. Which slots
   * are probed depends on the digest only, and nobody can choose keys whose digests share a prefix with a secret one.
   */
  findTenant(digest: usize): u32 {
    const mask = this.keyIndex.count - 1;
    let found = NONE;
    let slot = load<u32>(digest) & mask;
    while (true) {
      const entry = load<u32>(this.keyIndex.record(slot));
      if (entry === 0) return found;
      const key = this.keys.record(entry - 1);
      const difference =
        (load<u64>(key) ^ load<u64>(digest)) |
        (load<u64>(key, 8) ^ load<u64>(digest, 8)) |
        (load<u64>(key, 16) ^ load<u64>(digest, 16)) |
        (load<u64>(key, 24) ^ load<u64>(digest, 24));
      if (difference === 0) found = load<u32>(key, 32);
      slot = (slot + 1) & mask;
    }
  }
}

function listed(section: Section, first: u32, count: u32, wanted: u32): bool {
  if (count === ALL) return true;
  let low = first;
  let high = first + count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const value = load<u32>(section.record(middle));
    if (value === wanted) return true;
    if (value < wanted) low = middle + 1;
    else high = middle;
  }
  return false;
}

/** As hashBytes in config/index-table.ts. */
function hashOf(text: Span): u32 {
  let hash: u32 = 0x811c9dc5;
  for (let index: u32 = 0; index < text.length; index++) hash = (hash ^ text.at(index)) * 0x01000193;
  hash ^= hash >>> 15;
  hash *= 0x85ebca6b;
  return hash ^ (hash >>> 13);
}

function compareBytes(a: usize, aLength: u32, b: usize, bLength: u32): i32 {
  const order = memory.compare(a, b, min(aLength, bLength));
  if (order !== 0) return order;
  return aLength === bLength ? 0 : aLength < bLength ? -1 : 1;
}

/** Frees the configuration's own records, not the blob. */
export function freeConfig(config: Config): void {
  for (let id: u32 = 1; id <= KNOWN_SECTIONS; id++) heap.free(changetype<usize>(config.section(id)));
  heap.free(changetype<usize>(config));
}
