import type { Datatype, Tensor } from "./request.js";

/** Bytes of one element; BYTES elements are of any length, each behind a 4-byte length. */
export const ELEMENT_BYTES: Readonly<Record<Exclude<Datatype, "BYTES">, number>> = {
  BOOL: 1,
  UINT8: 1,
  UINT16: 2,
  UINT32: 4,
  UINT64: 8,
  INT8: 1,
  INT16: 2,
  INT32: 4,
  INT64: 8,
  FP16: 2,
  BF16: 2,
  FP32: 4,
  FP64: 8,
};

/** Whether a word is one of the KServe v2 datatypes. */
export function isDatatype(word: string): word is Datatype {
  return word === "BYTES" || Object.hasOwn(ELEMENT_BYTES, word);
}

/** Elements of one row: the product of all dimensions behind the first. */
export function elementsPerRow(shape: readonly number[]): number {
  let elements = 1;
  for (let index = 1; index < shape.length; index += 1) elements *= shape[index] ?? 0;
  return elements;
}

/** Rows of a tensor; 0 for one without a batch dimension. */
export function rowsOf(tensor: Pick<Tensor, "shape">): number {
  return tensor.shape[0] ?? 0;
}
