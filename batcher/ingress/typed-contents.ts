import type { Datatype } from "../request.js";
import { badInput, quote } from "./bad-input.js";
import { elementBytes, LARGE_INTEGER_RANGE, SMALL_INTEGER_RANGE } from "./datatype.js";
import { WireReader } from "./wire-reader.js";

/** Fields of `inference.InferTensorContents`. */
const FIELD_NAMES = [
  "",
  "bool_contents",
  "int_contents",
  "int64_contents",
  "uint_contents",
  "uint64_contents",
  "fp32_contents",
  "fp64_contents",
  "bytes_contents",
] as const;

const BYTES_FIELD = 8;

/** Field that carries a datatype. FP16 and BF16 have none: the protocol gives them raw contents only. */
const FIELD_OF: Readonly<Record<Datatype, number>> = {
  BOOL: 1,
  INT8: 2,
  INT16: 2,
  INT32: 2,
  INT64: 3,
  UINT8: 4,
  UINT16: 4,
  UINT32: 4,
  UINT64: 5,
  FP32: 6,
  FP64: 7,
  FP16: 0,
  BF16: 0,
  BYTES: BYTES_FIELD,
};

/**
 * Where an input's typed values lie in the request message. Ranges instead of values: reading is put off until the
 * shape is known to be right, and a hostile message of a million one-byte elements costs two numbers each.
 */
export class TypedContents {
  /** By field number: start and end offsets in turn. Numeric fields hold packed bytes, field 8 one element per pair. */
  readonly ranges: (number[] | undefined)[] = [];

  constructor(readonly bytes: Buffer) {}

  add(field: number, start: number, end: number): void {
    let ranges = this.ranges[field];
    if (ranges === undefined) {
      ranges = [];
      this.ranges[field] = ranges;
    }
    ranges.push(start, end);
  }

  /** Elements held for a datatype. */
  count(datatype: Datatype): number {
    const field = FIELD_OF[datatype];
    const ranges = this.ranges[field] ?? [];
    if (field === BYTES_FIELD) return ranges.length / 2;
    let count = 0;
    for (let index = 0; index < ranges.length; index += 2) {
      const start = ranges[index] as number;
      const end = ranges[index + 1] as number;
      if (field === 6) count += (end - start) / 4;
      else if (field === 7) count += (end - start) / 8;
      else {
        for (let at = start; at < end; at += 1) if ((this.bytes[at] as number) < 0x80) count += 1;
      }
    }
    return count;
  }
}

/**
 * Writes typed values as raw little-endian bytes, exactly: out of range is an error, never a wrap.
 * @param elements product of the shape, already bounded
 * @throws PredictError `bad_input` naming the input
 */
export function encodeTypedContents(
  contents: TypedContents,
  input: string,
  datatype: Datatype,
  elements: number,
): Uint8Array {
  const field = FIELD_OF[datatype];
  if (field === 0) throw badInput(`input ${quote(input)}: ${datatype} has no typed form; send raw_input_contents`);
  contents.ranges.forEach((ranges, other) => {
    if (ranges !== undefined && other !== field) {
      throw badInput(
        `input ${quote(input)}: ${FIELD_NAMES[other]} is filled, but ${datatype} belongs in ${FIELD_NAMES[field]}`,
      );
    }
  });
  const count = contents.count(datatype);
  if (count !== elements) {
    throw badInput(`input ${quote(input)}: expected ${elements} elements in ${FIELD_NAMES[field]}, got ${count}`);
  }
  const ranges = contents.ranges[field] ?? [];
  if (field === BYTES_FIELD) return joinByteElements(contents.bytes, ranges);
  if (field === 6 || field === 7) return joinRanges(contents.bytes, ranges, elements * elementBytes(datatype));
  return writeIntegers(contents.bytes, ranges, input, datatype, elements);
}

/** Each element behind its 4-byte little-endian length. */
function joinByteElements(bytes: Buffer, ranges: readonly number[]): Uint8Array {
  let size = 0;
  for (let index = 0; index < ranges.length; index += 2) {
    size += 4 + (ranges[index + 1] as number) - (ranges[index] as number);
  }
  const out = Buffer.allocUnsafe(size);
  let at = 0;
  for (let index = 0; index < ranges.length; index += 2) {
    const start = ranges[index] as number;
    const end = ranges[index + 1] as number;
    at = out.writeUInt32LE(end - start, at);
    at += bytes.copy(out, at, start, end);
  }
  return out;
}

/** Packed floats and doubles are little-endian already. */
function joinRanges(bytes: Buffer, ranges: readonly number[], size: number): Uint8Array {
  if (ranges.length === 2) return bytes.subarray(ranges[0], ranges[1]);
  const out = Buffer.allocUnsafe(size);
  let at = 0;
  for (let index = 0; index < ranges.length; index += 2) {
    at += bytes.copy(out, at, ranges[index], ranges[index + 1]);
  }
  return out;
}

function writeIntegers(
  bytes: Buffer,
  ranges: readonly number[],
  input: string,
  datatype: Datatype,
  elements: number,
): Uint8Array {
  const width = elementBytes(datatype);
  const out = Buffer.allocUnsafe(elements * width);
  const reader = new WireReader(bytes, "ModelInferRequest");
  let index = 0;
  for (let range = 0; range < ranges.length; range += 2) {
    reader.position = ranges[range] as number;
    const end = ranges[range + 1] as number;
    while (reader.position < end) {
      reader.varint(end);
      writeInteger(out, index * width, reader, input, datatype, index);
      index += 1;
    }
  }
  return out;
}

function writeInteger(
  out: Buffer,
  at: number,
  reader: WireReader,
  input: string,
  datatype: Datatype,
  index: number,
): void {
  if (LARGE_INTEGER_RANGE[datatype] !== undefined) {
    out.writeUInt32LE(reader.low, at);
    out.writeUInt32LE(reader.high, at + 4);
    return;
  }
  if (datatype === "BOOL") {
    out[at] = reader.low !== 0 || reader.high !== 0 ? 1 : 0;
    return;
  }
  const [min, max] = SMALL_INTEGER_RANGE[datatype] as readonly [number, number];
  // int_contents are int32 on the wire (sign-extended to 64 bits), uint_contents uint32: the low half is the value.
  const value = min < 0 ? reader.low | 0 : reader.low;
  if (value < min || value > max) {
    throw badInput(`input ${quote(input)}: element ${index} is ${value}; ${datatype} takes ${min} to ${max}`);
  }
  if (min < 0) out.writeIntLE(value, at, elementBytes(datatype));
  else out.writeUIntLE(value, at, elementBytes(datatype));
}
