import { ALIAS_MAX, MODEL_NAME_MAX } from "../../../proto/src/names";
import { literal, Span } from "../proxy-wasm/index";
import {
  ALIASES,
  ALL,
  Config,
  freeConfig,
  KEYS,
  KNOWN_SECTIONS,
  MODELS,
  NONE,
  Section,
  STRINGS,
  TENANTS,
  VERSIONS,
} from "./config";

const MAGIC: u32 = 0x54474d53;
const MAJOR: u16 = 1;
const HEADER_BYTES: u32 = 16;
const ENTRY_BYTES: u32 = 16;
/** Of other minors there may be more sections than we know; this only bounds the walk. */
const SECTIONS_MAX: u32 = 256;
const SHADOW_MAX: u32 = 200;
const STICKY_MAX: u32 = 64;

export const TOO_SHORT = literal(
  "gate configuration refused: it is shorter than its header or than the length it names",
);
export const NOT_OURS = literal("gate configuration refused: it does not begin with SMGT");
export const OTHER_MAJOR = literal(
  "gate configuration refused: its major version is not 1; deliver a module that reads it",
);
export const BAD_DIRECTORY = literal("gate configuration refused: a section lies outside the blob or is missing");
export const BAD_TEXT = literal("gate configuration refused: a text holds bytes that no header may hold");
export const BAD_RECORD = literal("gate configuration refused: a record points outside its section");

/** Why the last `parseConfig` gave null. */
export let problem: Span = TOO_SHORT;

/** Reads `length` bytes, which must stay as long as the configuration; null, with `problem` set, when they are not valid. */
export function parseConfig(block: usize, length: u32): Config | null {
  const config = newConfig(block);
  const found = checkDirectory(config, block, length);
  if (found !== null) return refuse(config, found);
  if (!textsAreVisible(config.strings)) return refuse(config, BAD_TEXT);
  if (!recordsFit(config)) return refuse(config, BAD_RECORD);
  return config;
}

function refuse(config: Config, why: Span): Config | null {
  problem = why;
  freeConfig(config);
  return null;
}

function newConfig(block: usize): Config {
  const config = new Config();
  config.block = block;
  return config;
}

/** The least bytes per record that this reader needs. */
function leastRecordBytes(id: u32): u32 {
  switch (id) {
    case STRINGS:
      return 1;
    case MODELS:
      return 48;
    case ALIASES:
    case TENANTS:
      return 24;
    case VERSIONS:
      return 8;
    case KEYS:
      return 40;
    default:
      return 4;
  }
}

function checkDirectory(config: Config, block: usize, length: u32): Span | null {
  if (length < HEADER_BYTES) return TOO_SHORT;
  if (load<u32>(block) !== MAGIC) return NOT_OURS;
  if (load<u16>(block, 4) !== MAJOR) return OTHER_MAJOR;
  if (load<u32>(block, 8) !== length) return TOO_SHORT;
  const sections = load<u32>(block, 12);
  if (sections > SECTIONS_MAX || sections * ENTRY_BYTES > length - HEADER_BYTES) return BAD_DIRECTORY;
  for (let index: u32 = 0; index < sections; index++) {
    const entry = block + HEADER_BYTES + <usize>index * ENTRY_BYTES;
    const id = load<u32>(entry);
    const offset = load<u32>(entry, 4);
    const count = load<u32>(entry, 8);
    const stride = load<u32>(entry, 12);
    if (offset > length || (offset & 7) !== 0 || <u64>count * stride > length - offset) return BAD_DIRECTORY;
    if (id === 0 || id > KNOWN_SECTIONS) continue;
    if (stride < leastRecordBytes(id) || (id === STRINGS && stride !== 1)) return BAD_DIRECTORY;
    const section = config.section(id);
    if (section.base !== 0) return BAD_DIRECTORY;
    section.base = block + offset;
    section.count = count;
    section.stride = stride;
  }
  for (let id: u32 = 1; id <= KNOWN_SECTIONS; id++) if (config.section(id).base === 0) return BAD_DIRECTORY;
  return null;
}

/** Texts become header values, and Envoy does not check what a filter sets. */
function textsAreVisible(strings: Section): bool {
  for (let index: u32 = 0; index < strings.count; index++) {
    const byte = load<u8>(strings.record(index));
    if (byte <= 0x20 || byte >= 0x7f) return false;
  }
  return true;
}

function recordsFit(config: Config): bool {
  for (let model: u32 = 0; model < config.models.count; model++)
    if (!modelFits(config, config.models.record(model))) return false;
  for (let alias: u32 = 0; alias < config.aliases.count; alias++) {
    const record = config.aliases.record(alias);
    if (!textFits(config, record, ALIAS_MAX) || !textFits(config, record + 8, SHADOW_MAX)) return false;
    if (load<u32>(record, 16) === 0) return false;
  }
  for (let tenant: u32 = 0; tenant < config.tenants.count; tenant++) {
    const record = config.tenants.record(tenant);
    if (!textFits(config, record, MODEL_NAME_MAX)) return false;
    if (!listFits(config.tenantModels, load<u32>(record, 12), load<u32>(record, 16))) return false;
  }
  for (let key: u32 = 0; key < config.keys.count; key++) {
    if (load<u32>(config.keys.record(key), 32) >= config.tenants.count) return false;
  }
  return (
    indexFits(config.modelTenants, config.tenants.count) &&
    indexFits(config.tenantModels, config.models.count) &&
    tableFits(config.modelIndex, config.models.count) &&
    tableFits(config.keyIndex, config.keys.count)
  );
}

function modelFits(config: Config, record: usize): bool {
  const firstAlias = load<u32>(record, 24);
  const aliases = load<u32>(record, 28);
  const defaultAlias = load<u32>(record, 20);
  if (!textFits(config, record, MODEL_NAME_MAX) || !textFits(config, record + 8, STICKY_MAX)) return false;
  if (load<u32>(record, 16) === 0) return false;
  if (!rangeFits(config.aliases, firstAlias, aliases)) return false;
  if (defaultAlias !== NONE && (defaultAlias < firstAlias || defaultAlias - firstAlias >= aliases)) return false;
  if (!rangeFits(config.versions, load<u32>(record, 32), load<u32>(record, 36))) return false;
  return listFits(config.modelTenants, load<u32>(record, 40), load<u32>(record, 44));
}

function textFits(config: Config, field: usize, most: u32): bool {
  const length = load<u32>(field, 4);
  return length <= most && rangeFits(config.strings, load<u32>(field), length);
}

function rangeFits(section: Section, first: u32, count: u32): bool {
  return first <= section.count && count <= section.count - first;
}

function listFits(section: Section, first: u32, count: u32): bool {
  return count === ALL || rangeFits(section, first, count);
}

function indexFits(section: Section, records: u32): bool {
  for (let index: u32 = 0; index < section.count; index++)
    if (load<u32>(section.record(index)) >= records) return false;
  return true;
}

/** A power of two of slots with at least one empty, or a probe would never end. */
function tableFits(section: Section, records: u32): bool {
  if (section.count === 0 || (section.count & (section.count - 1)) !== 0) return false;
  let empty = false;
  for (let slot: u32 = 0; slot < section.count; slot++) {
    const entry = load<u32>(section.record(slot));
    if (entry > records) return false;
    if (entry === 0) empty = true;
  }
  return empty;
}
