import { rowsOf } from "../element-bytes.js";
import type { Datatype, Tensor } from "../request.js";

/**
 * A tensor whose rows come from several requests. The parts are still the requests' own bytes; they are copied once, when
 * the upstream message is written.
 */
export interface MergedTensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly parts: readonly Uint8Array[];
  readonly byteLength: number;
}

/**
 * Joins the tensors of several requests along the batch dimension, rows in the order of the requests. Raw bytes of rows
 * simply follow each other, for BYTES too.
 * @param members requests of one lane: the same names, datatypes and shapes behind the first dimension
 * @throws Error when they differ, which is a bug of the caller
 */
export function mergeTensors(members: readonly (readonly Tensor[])[]): MergedTensor[] {
  const first = members[0];
  if (first === undefined) return [];
  return first.map((model, position) => mergeOne(model, position, members));
}

function mergeOne(model: Tensor, position: number, members: readonly (readonly Tensor[])[]): MergedTensor {
  const parts: Uint8Array[] = [];
  let rows = 0;
  let byteLength = 0;
  for (const tensors of members) {
    const inPlace = tensors[position];
    const tensor = inPlace?.name === model.name ? inPlace : tensors.find((candidate) => candidate.name === model.name);
    if (tensor === undefined || tensors.length !== members[0]?.length || !mergeable(model, tensor)) {
      throw new Error(`requests with different "${model.name}" tensors met in one batch`);
    }
    rows += rowsOf(tensor);
    byteLength += tensor.data.length;
    parts.push(tensor.data);
  }
  return { name: model.name, datatype: model.datatype, shape: [rows, ...model.shape.slice(1)], parts, byteLength };
}

function mergeable(a: Tensor, b: Tensor): boolean {
  if (a.datatype !== b.datatype || a.shape.length !== b.shape.length) return false;
  for (let index = 1; index < a.shape.length; index += 1) if (a.shape[index] !== b.shape[index]) return false;
  return true;
}
