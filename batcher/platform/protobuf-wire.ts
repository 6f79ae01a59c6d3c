/**
 * Just enough of the protobuf wire format to write and scan the KServe v2 envelope around raw tensors without building an
 * object tree (https://protobuf.dev/programming-guides/encoding). Tensor bytes are never converted, only sliced.
 */

/** Wire types. */
export const WIRE_VARINT = 0;
export const WIRE_FIXED64 = 1;
export const WIRE_BYTES = 2;
export const WIRE_FIXED32 = 5;

/** A message that is not protobuf or is cut off. */
export class WireError extends Error {
  override readonly name = "WireError";
}

/** Number of bytes of an unsigned varint below 2^53. */
export function varintLength(value: number): number {
  let length = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) length += 1;
  return length;
}

/** Appends protobuf fields to one growing buffer. */
export class WireWriter {
  private buffer: Buffer;
  private length = 0;

  constructor(initialBytes = 512) {
    this.buffer = Buffer.allocUnsafe(initialBytes);
  }

  /** What has been written, without a copy; valid until the next write. */
  view(): Buffer {
    return this.buffer.subarray(0, this.length);
  }

  reset(): void {
    this.length = 0;
  }

  tag(field: number, wireType: number): void {
    this.varint(field * 8 + wireType);
  }

  /** An unsigned integer below 2^53. */
  varint(value: number): void {
    this.reserve(10);
    let rest = value;
    while (rest >= 128) {
      this.buffer[this.length++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.buffer[this.length++] = rest;
  }

  /** A 64-bit integer, signed ones as two's complement. */
  varint64(value: bigint): void {
    this.reserve(10);
    let rest = BigInt.asUintN(64, value);
    while (rest >= 128n) {
      this.buffer[this.length++] = Number(rest & 127n) | 128;
      rest >>= 7n;
    }
    this.buffer[this.length++] = Number(rest);
  }

  double(value: number): void {
    this.reserve(8);
    this.buffer.writeDoubleLE(value, this.length);
    this.length += 8;
  }

  string(field: number, value: string): void {
    const bytes = Buffer.byteLength(value);
    this.tag(field, WIRE_BYTES);
    this.varint(bytes);
    this.reserve(bytes);
    this.buffer.write(value, this.length);
    this.length += bytes;
  }

  /** A length-delimited field whose body `write` appends. */
  message(field: number, write: (writer: WireWriter) => void): void {
    this.tag(field, WIRE_BYTES);
    this.reserve(1);
    const start = this.length;
    this.length += 1;
    write(this);
    const body = this.length - start - 1;
    const prefix = varintLength(body);
    if (prefix > 1) {
      // Rare: the body turned out longer than 127 bytes, so it moves to make room for its length.
      this.reserve(prefix - 1);
      this.buffer.copyWithin(start + prefix, start + 1, this.length);
    }
    this.length = start;
    this.varint(body);
    this.length = start + prefix + body;
  }

  private reserve(bytes: number): void {
    if (this.length + bytes <= this.buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.buffer.length * 2, this.length + bytes));
    this.buffer.copy(larger, 0, 0, this.length);
    this.buffer = larger;
  }
}

/** Walks the fields of one message. Slices share memory with the message. */
export class WireReader {
  /** Of the field that `next` found. */
  field = 0;
  wireType = 0;

  constructor(
    private readonly buffer: Buffer,
    private position = 0,
    private readonly end = buffer.length,
  ) {}

  /** Moves to the next field; false at the end. @throws WireError */
  next(): boolean {
    if (this.position >= this.end) return false;
    const tag = this.varint();
    this.field = Math.floor(tag / 8);
    this.wireType = tag % 8;
    if (this.field === 0) throw new WireError("field number 0");
    return true;
  }

  /** An unsigned integer; @throws WireError above 2^53. */
  varint(): number {
    let value = 0;
    let scale = 1;
    for (let index = 0; index < 8; index += 1) {
      const byte = this.byte();
      value += (byte & 127) * scale;
      if (byte < 128) {
        if (value > Number.MAX_SAFE_INTEGER) break;
        return value;
      }
      scale *= 128;
    }
    throw new WireError("a length or size beyond 2^53");
  }

  varint64(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.byte();
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asUintN(64, value);
    }
    throw new WireError("a varint longer than 10 bytes");
  }

  double(): number {
    const at = this.take(8);
    return this.buffer.readDoubleLE(at);
  }

  /** The body of a length-delimited field. */
  bytes(): Buffer {
    if (this.wireType !== WIRE_BYTES) throw new WireError(`field ${this.field} has wire type ${this.wireType}`);
    const length = this.varint();
    const at = this.take(length);
    return this.buffer.subarray(at, at + length);
  }

  string(): string {
    return this.bytes().toString("utf8");
  }

  /** A reader over the body of a message field. */
  message(): WireReader {
    return new WireReader(this.bytes());
  }

  skip(): void {
    if (this.wireType === WIRE_VARINT) this.varint64();
    else if (this.wireType === WIRE_FIXED64) this.take(8);
    else if (this.wireType === WIRE_BYTES) this.take(this.varint());
    else if (this.wireType === WIRE_FIXED32) this.take(4);
    else throw new WireError(`field ${this.field} has wire type ${this.wireType}`);
  }

  get done(): boolean {
    return this.position >= this.end;
  }

  private byte(): number {
    const at = this.take(1);
    return this.buffer[at] ?? 0;
  }

  private take(bytes: number): number {
    const at = this.position;
    if (at + bytes > this.end) throw new WireError("the message is cut off");
    this.position = at + bytes;
    return at;
  }
}
