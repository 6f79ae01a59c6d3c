import { isUtf8 } from "node:buffer";
import type { PredictError } from "../request.js";
import { badInput } from "./bad-input.js";

export const WIRE_VARINT = 0;
export const WIRE_FIXED64 = 1;
export const WIRE_BYTES = 2;
export const WIRE_FIXED32 = 5;

const REPLACEMENT_CHARACTER = "\ufffd";

/**
 * Reads protobuf fields of an untrusted message in place (https://protobuf.dev/programming-guides/encoding). It never
 * copies and never allocates by a length that the message claims: every length is first compared with what is left.
 * All errors are `bad_input` with the byte offset.
 */
export class WireReader {
  /** Of the last tag. */
  field = 0;
  wireType = 0;
  /** The last varint, as two unsigned halves. */
  low = 0;
  high = 0;
  position = 0;

  constructor(
    readonly bytes: Buffer,
    /** For messages, e.g. `ModelInferRequest`. */
    private readonly what: string,
  ) {}

  /** Reads the tag of the next field of a message that ends at `end`; false at the end. */
  next(end: number): boolean {
    if (this.position >= end) return false;
    const at = this.position;
    this.varint(end);
    if (this.high !== 0) throw this.broken("a field number beyond 2^29", at);
    this.field = this.low >>> 3;
    this.wireType = this.low & 7;
    if (this.field === 0) throw this.broken("field number 0", at);
    return true;
  }

  /** Reads a varint into `low` and `high`. */
  varint(end: number): void {
    const { bytes } = this;
    const at = this.position;
    let position = at;
    let low = 0;
    let high = 0;
    for (let shift = 0; ; shift += 7) {
      if (position >= end) throw this.broken("a varint that is cut off", at);
      const byte = bytes[position++] as number;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >>> 4;
      } else {
        // The tenth byte holds bit 63 only.
        if (shift === 63 && byte > 1) throw this.broken("a varint longer than 64 bits", at);
        high |= bits << (shift - 32);
      }
      if (byte < 0x80) break;
    }
    this.low = low >>> 0;
    this.high = high >>> 0;
    this.position = position;
  }

  /** The last varint as int64: a number where that is exact, else a bigint. */
  int64(): number | bigint {
    const value = (this.high | 0) * 0x1_0000_0000 + this.low;
    return Number.isSafeInteger(value) ? value : BigInt.asIntN(64, this.uint64());
  }

  /** The last varint as uint64. */
  uint64(): bigint {
    return (BigInt(this.high) << 32n) | BigInt(this.low);
  }

  /** Enters a length-delimited field: returns where its body ends; `position` is at its start. */
  body(end: number): number {
    const at = this.position;
    this.varint(end);
    if (this.high !== 0 || this.low > end - this.position) {
      throw this.broken(`a length of ${this.uint64()} where ${end - this.position} bytes are left`, at);
    }
    return this.position + this.low;
  }

  /** Reads a length-delimited body as text, which must be UTF-8. */
  text(end: number, maxBytes: number, name: string): string {
    const stop = this.body(end);
    const start = this.position;
    if (stop - start > maxBytes) {
      throw badInput(`${this.what}: ${name} has ${stop - start} bytes; the limit is ${maxBytes}`);
    }
    this.position = stop;
    const text = this.bytes.toString("utf8", start, stop);
    if (text.includes(REPLACEMENT_CHARACTER) && !isUtf8(this.bytes.subarray(start, stop))) {
      throw badInput(`${this.what}: ${name} at byte ${start} is not valid UTF-8; protobuf strings must be`);
    }
    return text;
  }

  /** The 8 bytes of a fixed64 field as double. */
  double(end: number): number {
    const at = this.take(8, end);
    return this.bytes.readDoubleLE(at);
  }

  /** Steps over a field that nobody reads. */
  skip(end: number): void {
    if (this.wireType === WIRE_VARINT) this.varint(end);
    else if (this.wireType === WIRE_FIXED64) this.take(8, end);
    else if (this.wireType === WIRE_FIXED32) this.take(4, end);
    else if (this.wireType === WIRE_BYTES) this.position = this.body(end);
    else throw this.broken(`wire type ${this.wireType} in field ${this.field}`, this.position);
  }

  /** Steps over `count` bytes and returns where they start. */
  take(count: number, end: number): number {
    const at = this.position;
    if (count > end - at) throw this.broken("a value that is cut off", at);
    this.position = at + count;
    return at;
  }

  /** Checks the wire type of the current field. */
  expect(wireType: number, name: string): void {
    if (this.wireType !== wireType) {
      throw this.broken(`${name} with wire type ${this.wireType} instead of ${wireType}`, this.position);
    }
  }

  broken(problem: string, at: number): PredictError {
    return badInput(`${this.what} is not valid protobuf: ${problem} at byte ${at}; check the client's encoder`);
  }
}
