import type { Datatype, Tensor } from "../request.js";

/** Datatypes of an input that names entities: every integer that fits int64. */
export const ENTITY_DATATYPES: readonly Datatype[] = ["INT64", "INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"];

/** The ids that an input holds, one per row; 64-bit ones exactly. The tensor's datatype is one of ENTITY_DATATYPES. */
export function entityIds(tensor: Tensor): bigint[] {
  const view = new DataView(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
  const rows = tensor.shape[0] ?? 0;
  const ids: bigint[] = [];
  for (let row = 0; row < rows; row += 1) ids.push(readId(view, tensor, row));
  return ids;
}

function readId(view: DataView, tensor: Tensor, row: number): bigint {
  switch (tensor.datatype) {
    case "INT64":
      return view.getBigInt64(row * 8, true);
    case "INT32":
      return BigInt(view.getInt32(row * 4, true));
    case "UINT32":
      return BigInt(view.getUint32(row * 4, true));
    case "INT16":
      return BigInt(view.getInt16(row * 2, true));
    case "UINT16":
      return BigInt(view.getUint16(row * 2, true));
    case "INT8":
      return BigInt(view.getInt8(row));
    case "UINT8":
      return BigInt(view.getUint8(row));
    default:
      throw new Error(`input "${tensor.name}" of datatype ${tensor.datatype} cannot name entities`);
  }
}
