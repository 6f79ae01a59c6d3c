import { ELEMENT_BYTES, elementsPerRow } from "../element-bytes.js";
import type { Tensor } from "../request.js";

/** An answer that cannot be divided among its callers; no part of it may be used. */
export class SplitError extends Error {
  override readonly name = "SplitError";
}

/**
 * Divides tensors along the batch dimension, the exact inverse of mergeTensors. Row order is part of the contract with
 * the model. The slices share memory with the whole: nothing is copied.
 * @param rowCounts rows of each request, in batch order
 * @returns one list of tensors per request
 * @throws SplitError when a tensor has another number of rows, or bytes that do not match its shape
 */
export function splitTensors(tensors: readonly Tensor[], rowCounts: readonly number[]): Tensor[][] {
  let rows = 0;
  for (const count of rowCounts) rows += count;
  const members: Tensor[][] = rowCounts.map(() => []);
  for (const tensor of tensors) {
    const ends = rowEnds(tensor, rows, rowCounts);
    let start = 0;
    for (const [index, end] of ends.entries()) {
      members[index]?.push({
        name: tensor.name,
        datatype: tensor.datatype,
        shape: [rowCounts[index] ?? 0, ...tensor.shape.slice(1)],
        data: tensor.data.subarray(start, end),
      });
      start = end;
    }
  }
  return members;
}

/** Byte offset at which each request's rows end. */
function rowEnds(tensor: Tensor, rows: number, rowCounts: readonly number[]): number[] {
  const got = tensor.shape[0];
  if (got === undefined) throw new SplitError(`output "${tensor.name}": expected ${rows} rows, got a scalar`);
  if (got !== rows) throw new SplitError(`output "${tensor.name}": expected ${rows} rows, got ${got}`);
  const elements = elementsPerRow(tensor.shape);
  if (tensor.datatype === "BYTES") return bytesEnds(tensor, elements, rowCounts);
  const rowBytes = elements * ELEMENT_BYTES[tensor.datatype];
  if (rows * rowBytes !== tensor.data.length) {
    throw new SplitError(
      `output "${tensor.name}": ${tensor.datatype} [${tensor.shape.join(",")}] needs ${rows * rowBytes} bytes, got ${tensor.data.length}`,
    );
  }
  let end = 0;
  return rowCounts.map((count) => {
    end += count * rowBytes;
    return end;
  });
}

/** BYTES elements must be walked: each says its own length. */
function bytesEnds(tensor: Tensor, elementsOfRow: number, rowCounts: readonly number[]): number[] {
  const { data } = tensor;
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let position = 0;
  const ends = rowCounts.map((count) => {
    for (let left = count * elementsOfRow; left > 0; left -= 1) {
      if (position + 4 > data.length) throw cutOff(tensor);
      position += 4 + view.getUint32(position, true);
      if (position > data.length) throw cutOff(tensor);
    }
    return position;
  });
  if (position !== data.length) {
    throw new SplitError(`output "${tensor.name}": ${data.length - position} bytes follow the last BYTES element`);
  }
  return ends;
}

function cutOff(tensor: Tensor): SplitError {
  return new SplitError(`output "${tensor.name}": a BYTES element reaches beyond the end of the tensor`);
}
