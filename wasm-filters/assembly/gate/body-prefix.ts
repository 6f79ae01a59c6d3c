import { Buffer, readBuffer, Span } from "../proxy-wasm/index";
import { Asked } from "./asked";
import {
  BAD_FRAME,
  BAD_MESSAGE,
  COMPRESSED_FRAME,
  NAME_TOO_FAR,
  NO_BODY,
  NO_NAME,
  REPEATED_FIELD,
  Refusal,
} from "./refusals";

/** In front of each gRPC message: u8 compressed flag, u32 length in big-endian. */
const FRAME_BYTES: u32 = 5;
/** How much of the message is read; serializers write fields in order, so the name comes first. */
const PREFIX_BYTES: u32 = 4096;

/**
 * `model_name` and `model_version` of `inference.ModelInferRequest`, or `name` and `version` of the model requests: always
 * the fields 1 and 2.
 */
const NAME_FIELD: u32 = 1;
const VERSION_FIELD: u32 = 2;

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const FIXED32: u32 = 5;
const VARINT_BYTES_MAX: u32 = 10;

/** A tag is 32 bits, a length at most 2 GiB: larger ones are no protobuf. */
const TAG_MAX: u64 = 0xffffffff;
const LENGTH_MAX: u64 = 0x7fffffff;

/** How a step through the message ended. */
namespace Step {
  export const Done: u32 = 0;
  /** Goes beyond the window. */
  export const Cut: u32 = 1;
  /** Nothing that proto3 knows; groups among it. */
  export const Invalid: u32 = 2;
}

const bytes = new Span();
const value = new Span();

/**
 * Reads the name and version from the first bytes of a gRPC body. It waits for the whole prefix (or message, when that is
 * shorter), so the verdict never depends on how the network cut the body.
 *
 * Fields beyond the prefix are not seen here: the batcher refuses a message whose reference differs from the routed one.
 */
@unmanaged
export class BodyPrefix {
  /** Of the last `read` that returned true: why the body is refused, or null. */
  refusal: Refusal | null = null;
  private messageBytes: u32 = 0;
  private end: u32 = 0;
  private cursor: u32 = 0;
  private varint: u64 = 0;

  /** False when more of the body must come first. `size` is what the host holds of the body. */
  read(size: u32, endOfStream: bool, asked: Asked): bool {
    asked.clear();
    this.refusal = null;
    readBuffer(Buffer.RequestBody, min(size, FRAME_BYTES + PREFIX_BYTES), bytes);
    if (bytes.length > 0 && bytes.at(0) !== 0) return this.done(bytes.at(0) === 1 ? COMPRESSED_FRAME : BAD_FRAME);
    if (bytes.length < FRAME_BYTES) return endOfStream && this.done(bytes.length === 0 ? NO_BODY : BAD_FRAME);
    this.messageBytes = bswap<u32>(load<u32>(bytes.pointer, 1));
    const window = min(this.messageBytes, PREFIX_BYTES);
    if (bytes.length - FRAME_BYTES < window) return endOfStream && this.done(BAD_FRAME);
    bytes.set(bytes.pointer + FRAME_BYTES, window);
    return this.done(this.readFields(asked));
  }

  private done(refusal: Refusal | null): bool {
    this.refusal = refusal;
    return true;
  }

  private readFields(asked: Asked): Refusal | null {
    this.end = bytes.length;
    this.cursor = 0;
    while (this.cursor < this.end) {
      let step = this.readVarint();
      if (step !== Step.Done) return this.stopped(step, false, asked);
      const tag = this.varint;
      const field = tag >> 3;
      if (tag > TAG_MAX || field === 0) return BAD_MESSAGE;
      const isReference = field === NAME_FIELD || field === VERSION_FIELD;
      const wireType = <u32>tag & 7;
      if (isReference && wireType !== BYTES) return BAD_MESSAGE;
      step = this.skip(wireType);
      if (step !== Step.Done) return this.stopped(step, isReference, asked);
      if (!isReference) continue;
      const text = field === NAME_FIELD ? asked.model : asked.version;
      if (text.present) return REPEATED_FIELD;
      text.copyFrom(value);
    }
    return this.finish(asked);
  }

  /** At a field that goes beyond the window, which is normal when the message does too, or that is not valid. */
  private stopped(step: u32, inReference: bool, asked: Asked): Refusal | null {
    if (step === Step.Invalid || !this.messageIsLonger) return BAD_MESSAGE;
    return inReference ? NAME_TOO_FAR : this.finish(asked);
  }

  private finish(asked: Asked): Refusal | null {
    // An empty text is what proto3 calls absent.
    if (asked.version.length === 0) asked.version.clear();
    if (asked.model.length > 0) return null;
    return this.messageIsLonger && !asked.model.present ? NAME_TOO_FAR : NO_NAME;
  }

  private get messageIsLonger(): bool {
    return this.messageBytes > PREFIX_BYTES;
  }

  /** Into `varint`. */
  private readVarint(): u32 {
    this.varint = 0;
    for (let index: u32 = 0; index < VARINT_BYTES_MAX; index++) {
      if (this.cursor === this.end) return Step.Cut;
      const byte = bytes.at(this.cursor++);
      this.varint |= (<u64>byte & 127) << (index * 7);
      if (byte < 128) return Step.Done;
    }
    return Step.Invalid;
  }

  /** Steps over a value; one of wire type BYTES is in `value` afterwards. */
  private skip(wireType: u32): u32 {
    if (wireType === VARINT) return this.readVarint();
    let length: u64 = 0;
    if (wireType === FIXED64) length = 8;
    else if (wireType === FIXED32) length = 4;
    else if (wireType === BYTES) {
      const step = this.readVarint();
      if (step !== Step.Done) return step;
      length = this.varint;
    } else return Step.Invalid;
    if (length > LENGTH_MAX) return Step.Invalid;
    if (length > this.end - this.cursor) return Step.Cut;
    value.set(bytes.pointer + this.cursor, <u32>length);
    this.cursor += <u32>length;
    return Step.Done;
  }
}
