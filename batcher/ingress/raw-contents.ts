import type { Datatype } from "../request.js";
import { badInput, formatShape, quote } from "./bad-input.js";
import { elementBytes } from "./datatype.js";

/**
 * Checks raw little-endian bytes against a tensor's type and shape, in place.
 * @param elements product of the shape, already bounded
 * @throws PredictError `bad_input` naming the input, and for BYTES and BOOL the element
 */
export function checkRawContents(
  bytes: Uint8Array,
  input: string,
  datatype: Datatype,
  shape: readonly number[],
  elements: number,
): void {
  if (datatype === "BYTES") {
    checkByteElements(bytes, input, shape, elements);
    return;
  }
  const expected = elements * elementBytes(datatype);
  if (bytes.byteLength !== expected) {
    throw badInput(
      `input ${quote(input)}: expected ${expected} bytes, got ${bytes.byteLength}; ${datatype} ${formatShape(shape)} has ${elementBytes(datatype)} per element`,
    );
  }
  if (datatype === "BOOL") checkBooleans(bytes, input);
}

/** BOOL is 0 or 1; any other byte means that the caller's buffer holds something else. */
function checkBooleans(bytes: Uint8Array, input: string): void {
  for (let index = 0; index < bytes.byteLength; index += 1) {
    if ((bytes[index] as number) > 1) {
      throw badInput(`input ${quote(input)}: element ${index} is byte ${bytes[index]}; BOOL takes 0 or 1`);
    }
  }
}

/** Each element stands behind its 4-byte little-endian length; lengths are compared with what is left, never trusted. */
function checkByteElements(bytes: Uint8Array, input: string, shape: readonly number[], elements: number): void {
  const end = bytes.byteLength;
  let at = 0;
  for (let index = 0; index < elements; index += 1) {
    if (end - at < 4) {
      const what =
        end === at ? `expected ${elements} elements, got ${index}` : `${end - at} bytes are left for a length`;
      throw badInput(
        `input ${quote(input)}: element ${index} at byte ${at}: ${what}; BYTES ${formatShape(shape)} needs a 4-byte little-endian length before each element`,
      );
    }
    const length = readUint32(bytes, at);
    if (length > end - at - 4) {
      throw badInput(
        `input ${quote(input)}: element ${index} at byte ${at} claims ${length} bytes where ${end - at - 4} are left; lengths are 4-byte little-endian`,
      );
    }
    at += 4 + length;
  }
  if (at < end) {
    throw badInput(
      `input ${quote(input)}: ${end - at} bytes are left over at byte ${at} after element ${elements - 1}; BYTES ${formatShape(shape)} has ${elements} elements`,
    );
  }
}

/** Counts whole elements of raw BYTES, for messages. */
export function countByteElements(bytes: Uint8Array): number {
  let count = 0;
  for (let at = 0; bytes.byteLength - at >= 4; count += 1) {
    const length = readUint32(bytes, at);
    if (length > bytes.byteLength - at - 4) break;
    at += 4 + length;
  }
  return count;
}

function readUint32(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24)) >>>
    0
  );
}
