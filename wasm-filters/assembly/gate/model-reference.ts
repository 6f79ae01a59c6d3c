import { ALIAS_MAX, MODEL_NAME_MAX, VERSION_DIGITS_MAX } from "../../../proto/src/names";
import { Span } from "../proxy-wasm/index";
import { BAD_ALIAS, BAD_MODEL_NAME, BAD_VERSION, Refusal, TWO_PINS } from "./refusals";

const AT: u8 = 0x40;
const COLON: u8 = 0x3a;
const DASH: u8 = 0x2d;
const DOT: u8 = 0x2e;
const UNDERSCORE: u8 = 0x5f;
const ZERO: u8 = 0x30;
const VERSION_MAX: u64 = <u64>i64.MAX_VALUE;

export namespace Pin {
  export const None: u32 = 0;
  export const Alias: u32 = 1;
  export const Version: u32 = 2;
}

/** A model reference (DESIGN §3): `ranker`, `ranker@canary` or `ranker:41`. */
@unmanaged
export class ModelReference {
  model: Span = new Span();
  pin: u32 = 0;
  alias: Span = new Span();
  version: u64 = 0;

  /** Reads a text; the grammar's table is proto/vectors/model-ref.json, shared with the TypeScript parser. */
  parse(text: Span): Refusal | null {
    this.pin = Pin.None;
    const at = firstPin(text, 0);
    this.model.set(text.pointer, at);
    if (!isModelName(this.model)) return BAD_MODEL_NAME;
    if (at === text.length) return null;
    if (firstPin(text, at + 1) !== text.length) return TWO_PINS;
    this.alias.set(text.pointer + at + 1, text.length - at - 1);
    if (text.at(at) === AT) {
      if (!isAlias(this.alias)) return BAD_ALIAS;
      this.pin = Pin.Alias;
      return null;
    }
    this.version = parseVersion(this.alias);
    if (this.version === 0) return BAD_VERSION;
    this.pin = Pin.Version;
    return null;
  }
}

/** Index of the first `@` or `:` from `start` on, or the length. */
function firstPin(text: Span, start: u32): u32 {
  let index = start;
  while (index < text.length && text.at(index) !== AT && text.at(index) !== COLON) index++;
  return index;
}

/** `[a-z0-9][a-z0-9._-]{0,62}` */
function isModelName(text: Span): bool {
  if (text.length === 0 || text.length > <u32>MODEL_NAME_MAX) return false;
  if (!isLower(text.at(0)) && !isDigit(text.at(0))) return false;
  for (let index: u32 = 1; index < text.length; index++) {
    const byte = text.at(index);
    if (!isLower(byte) && !isDigit(byte) && byte !== DOT && byte !== UNDERSCORE && byte !== DASH) return false;
  }
  return true;
}

/** `[a-z][a-z0-9-]{0,31}` */
export function isAlias(text: Span): bool {
  if (text.length === 0 || text.length > <u32>ALIAS_MAX || !isLower(text.at(0))) return false;
  for (let index: u32 = 1; index < text.length; index++) {
    const byte = text.at(index);
    if (!isLower(byte) && !isDigit(byte) && byte !== DASH) return false;
  }
  return true;
}

/** Version of a decimal text, or 0 when it is none: no sign, no leading zero, at most 2^63-1. */
export function parseVersion(text: Span): u64 {
  // 19 digits cannot wrap 64 unsigned bits.
  if (text.length === 0 || text.length > <u32>VERSION_DIGITS_MAX || text.at(0) === ZERO) return 0;
  let version: u64 = 0;
  for (let index: u32 = 0; index < text.length; index++) {
    const byte = text.at(index);
    if (!isDigit(byte)) return 0;
    version = version * 10 + (byte - ZERO);
  }
  return version <= VERSION_MAX ? version : 0;
}

function isLower(byte: u8): bool {
  return byte >= 0x61 && byte <= 0x7a;
}

function isDigit(byte: u8): bool {
  return byte >= ZERO && byte <= 0x39;
}
