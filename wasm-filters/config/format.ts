/*
 * The binary configuration of the gate, version 1. All numbers little-endian; the module reads it in place
 * (assembly/gate/config.ts and config-parser.ts mirror these constants).
 *
 *   0  u32 magic "SMGT"     4  u16 major, u16 minor     8  u32 total bytes     12  u32 sections
 *   16 directory, per section: u32 id, u32 offset, u32 record count, u32 bytes per record
 *   then the sections, each at a multiple of 8
 *
 * A reader refuses another major. A new minor may add sections and lengthen records: a reader skips ids that it does not
 * know and steps by the directory's bytes per record, so old modules read new blobs of their major.
 *
 * A text is u32 offset into the section `strings` and u32 length. Records are sorted by name (versions and keys by value),
 * so the same configuration gives the same bytes. An allow list is u32 first entry and u32 count, or count ALL.
 *
 *   strings       bytes 0x21 to 0x7e only, because texts become header values
 *   models        text name, text sticky header, u32 deadline ms, u32 default alias or NONE, u32 first alias, u32 aliases,
 *                 u32 first version, u32 versions, u32 first of model-tenants, u32 count or ALL
 *   aliases       text name, text shadow cluster, u32 deadline ms (already the smaller one), u32 zero
 *   versions      u64
 *   tenants       text name, u32 priority, u32 first of tenant-models, u32 count or ALL, u32 zero
 *   keys          32 bytes SHA-256, u32 tenant, u32 zero
 *   model-tenants, tenant-models   u32 index of a tenant or model, ascending within a list
 *   model-index, key-index         open addressing, a power of two of slots: u32 record + 1, or 0 for an empty slot;
 *                                  start at hash & (slots - 1) and step by one. Hash of a model is FNV-1a of its name with
 *                                  the finish of hashBytes, hash of a key is the first u32 of its digest.
 */
export const BLOB_MAGIC = 0x54474d53;
export const BLOB_MAJOR = 1;
export const BLOB_MINOR = 0;
export const BLOB_HEADER = 16;
export const DIRECTORY_ENTRY = 16;

/** No record. */
export const NONE = 0xffffffff;
/** Count of an allow list that allows all. */
export const ALL = 0xffffffff;

export const PRIORITY = { interactive: 0, batch: 1 } as const;

export const SECTION = {
  strings: 1,
  models: 2,
  aliases: 3,
  versions: 4,
  tenants: 5,
  keys: 6,
  modelTenants: 7,
  tenantModels: 8,
  modelIndex: 9,
  keyIndex: 10,
} as const;

export const RECORD_BYTES = { model: 48, alias: 24, version: 8, tenant: 24, key: 40, index: 4 } as const;
