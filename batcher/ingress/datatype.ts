import type { Datatype } from "../request.js";

/** Bytes of one element of every KServe v2 datatype; BYTES elements have their own length and are 0 here. */
const ELEMENT_BYTES: ReadonlyMap<string, number> = new Map<Datatype, number>([
  ["BOOL", 1],
  ["UINT8", 1],
  ["UINT16", 2],
  ["UINT32", 4],
  ["UINT64", 8],
  ["INT8", 1],
  ["INT16", 2],
  ["INT32", 4],
  ["INT64", 8],
  ["FP16", 2],
  ["BF16", 2],
  ["FP32", 4],
  ["FP64", 8],
  ["BYTES", 0],
]);

export function isDatatype(text: string): text is Datatype {
  return ELEMENT_BYTES.has(text);
}

/** Bytes of one element; 0 for BYTES. */
export function elementBytes(datatype: Datatype): number {
  return ELEMENT_BYTES.get(datatype) ?? 0;
}

/** Smallest and largest value of the integer datatypes up to 32 bits. */
export const SMALL_INTEGER_RANGE: Readonly<Partial<Record<Datatype, readonly [number, number]>>> = {
  UINT8: [0, 0xff],
  UINT16: [0, 0xffff],
  UINT32: [0, 0xffffffff],
  INT8: [-0x80, 0x7f],
  INT16: [-0x8000, 0x7fff],
  INT32: [-0x80000000, 0x7fffffff],
};

/** Smallest and largest value of the 64-bit integer datatypes. */
export const LARGE_INTEGER_RANGE: Readonly<Partial<Record<Datatype, readonly [bigint, bigint]>>> = {
  UINT64: [0n, 0xffffffffffffffffn],
  INT64: [-0x8000000000000000n, 0x7fffffffffffffffn],
};
