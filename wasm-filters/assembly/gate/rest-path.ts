import { literal, Span, scratch } from "../proxy-wasm/index";
import { Asked } from "./asked";
import { Kind } from "./call";
import { BAD_ESCAPE, Refusal } from "./refusals";

const V1 = literal("v1");
const V2 = literal("v2");
const MODELS = literal("models");
const VERSIONS = literal("versions");
const LABELS = literal("labels");
const METADATA = literal("metadata");
const INFER = literal("infer");
const READY = literal("ready");
const LIVE = literal("live");
const CONFIG = literal("config");
const HEALTH = literal("health");
const PREDICT = literal("predict");
const SLASH: u8 = 0x2f;
const COLON: u8 = 0x3a;
const QUESTION: u8 = 0x3f;
const PERCENT: u8 = 0x25;
/** `v2/models/m/versions/v/ready` is the longest. */
const SEGMENTS_MAX: u32 = 6;

/**
 * The grammar of the REST doors, as the transcoder has it (proto/servemesh/rest/v1):
 *
 *   /v1/models/{m}[/versions/{v}|/labels/{a}]:predict        POST
 *   /v1/models/{m}[/versions/{v}|/labels/{a}][/metadata]     GET
 *   /v2/models/{m}[/versions/{v}]/infer                      POST
 *   /v2/models/{m}[/versions/{v}][/ready|/config]            GET
 *   /v2   /v2/health/live   /v2/health/ready                 GET
 *
 * Exact bytes only: no case folding, no trailing slash, no empty or dot segments. Percent escapes are decoded in the
 * model segment alone, once, and only those that tritonclient.http writes.
 */
@unmanaged
export class RestPath {
  kind: u32 = 0;
  /** The door has the binary tensor extension. */
  takesBinary: bool = false;
  /** Length without the query. */
  pathLength: u32 = 0;
  private segments: usize = 0;
  private count: u32 = 0;
  private pinSegment: u32 = 0;
  private pinIsLabel: bool = false;
  private verbless: Span = new Span();

  /** False when the path is not served. `posted` decides whether a `:word` at the end can be a pin or must be a verb. */
  parse(path: Span, posted: bool): bool {
    this.kind = 0;
    this.takesBinary = false;
    this.pinSegment = 0;
    this.pathLength = queryStart(path);
    if (!this.split(path)) return false;
    if (this.segment(0).equals(V2)) return this.parseV2();
    return this.segment(0).equals(V1) && this.parseV1(posted);
  }

  /** The texts that name the model; a refusal when the model segment holds an escape that is not decoded. */
  readNames(asked: Asked): Refusal | null {
    if (this.kind < Kind.ModelReady) return null;
    const verbOnModel = this.verbless.present && this.pinSegment === 0;
    const model = verbOnModel ? this.verbless : this.segment(2);
    if (!decodeModel(model, asked.model)) return BAD_ESCAPE;
    if (this.pinSegment === 0) return null;
    const pin = this.verbless.present ? this.verbless : this.segment(this.pinSegment);
    if (this.pinIsLabel) asked.label.copyFrom(pin);
    else asked.version.copyFrom(pin);
    return null;
  }

  private parseV2(): bool {
    this.takesBinary = true;
    this.verbless.clear();
    if (this.count === 1) return this.is(Kind.ServerMetadata);
    if (this.segment(1).equals(HEALTH) && this.count === 3) {
      if (this.segment(2).equals(LIVE)) return this.is(Kind.ServerLive);
      return this.segment(2).equals(READY) && this.is(Kind.ServerReady);
    }
    if (!this.segment(1).equals(MODELS) || this.count < 3) return false;
    const next = this.skipPin(false);
    if (next === this.count) return this.is(Kind.ModelMetadata);
    if (next + 1 !== this.count) return false;
    if (this.segment(next).equals(INFER)) return this.is(Kind.Predict);
    if (this.segment(next).equals(READY)) return this.is(Kind.ModelReady);
    return this.segment(next).equals(CONFIG) && this.is(Kind.ModelConfig);
  }

  private parseV1(posted: bool): bool {
    this.verbless.clear();
    if (this.count < 3 || !this.segment(1).equals(MODELS)) return false;
    const next = this.skipPin(true);
    if (next + 1 === this.count) return this.segment(next).equals(METADATA) && this.is(Kind.ModelMetadata);
    if (next !== this.count) return false;
    const last = this.segment(this.count - 1);
    const colon = lastColon(last);
    if (colon === last.length) return this.is(Kind.ModelStatus);
    const name = last.pointer;
    last.set(name + colon + 1, last.length - colon - 1);
    if (last.equals(PREDICT)) {
      this.verbless.set(name, colon);
      return this.is(Kind.Predict);
    }
    // `POST .../m:classify` asks for another verb; `GET .../m:41` names a version.
    const digit = last.length > 0 && last.at(0) - 0x30 < 10;
    return (!posted || digit) && this.is(Kind.ModelStatus);
  }

  /** Remembers `/versions/x` (or `/labels/x`) after the model; index of the segment after it. */
  private skipPin(labels: bool): u32 {
    if (this.count < 5) return 3;
    const isVersion = this.segment(3).equals(VERSIONS);
    if (!isVersion && !(labels && this.segment(3).equals(LABELS))) return 3;
    this.pinSegment = 4;
    this.pinIsLabel = !isVersion;
    return 5;
  }

  private is(kind: u32): bool {
    this.kind = kind;
    return true;
  }

  /** Cuts the path at its slashes; false when it does not begin with one, has too many, or an empty segment. */
  private split(path: Span): bool {
    if (this.segments === 0) this.segments = heap.alloc(SEGMENTS_MAX * 8);
    this.count = 0;
    const end = this.pathLength;
    if (end < 2 || path.at(0) !== SLASH) return false;
    let start: u32 = 1;
    for (let index: u32 = 1; index <= end; index++) {
      if (index < end && path.at(index) !== SLASH) continue;
      if (index === start || this.count === SEGMENTS_MAX) return false;
      const slot = this.segments + ((<usize>this.count) << 3);
      store<u32>(slot, <u32>(path.pointer + start));
      store<u32>(slot, index - start, 4);
      this.count++;
      start = index + 1;
    }
    return true;
  }

  /** One span serves all segments: use it before the next call. */
  private segment(index: u32): Span {
    const slot = this.segments + ((<usize>index) << 3);
    shared.set(load<u32>(slot), load<u32>(slot, 4));
    return shared;
  }
}

const shared = new Span();

function queryStart(path: Span): u32 {
  let index: u32 = 0;
  while (index < path.length && path.at(index) !== QUESTION) index++;
  return index;
}

function lastColon(text: Span): u32 {
  for (let index = text.length; index > 0; index--) if (text.at(index - 1) === COLON) return index - 1;
  return text.length;
}

/** The segment with `%40` and `%3A` decoded once; false at any other `%`, so nothing is ever decoded twice. */
function decodeModel(segment: Span, into: Span): bool {
  let index: u32 = 0;
  while (index < segment.length && segment.at(index) !== PERCENT) index++;
  if (index === segment.length) {
    into.copyFrom(segment);
    return true;
  }
  const decoded = scratch(segment.length);
  let length: u32 = 0;
  for (index = 0; index < segment.length; index++) {
    let byte = segment.at(index);
    if (byte === PERCENT) {
      byte = escaped(segment, index + 1);
      if (byte === 0) return false;
      index += 2;
    }
    store<u8>(decoded + length++, byte);
  }
  into.set(decoded, length);
  return true;
}

/** `@` or `:` for the two hexadecimal digits at `index`, or 0. */
function escaped(text: Span, index: u32): u8 {
  if (text.length - index < 2) return 0;
  const high = text.at(index);
  const low = text.at(index + 1);
  if (high === 0x34 && low === 0x30) return 0x40;
  return high === 0x33 && (low | 0x20) === 0x61 ? COLON : 0;
}
