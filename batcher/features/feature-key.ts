const MIN_ID = -(1n << 63n);
const MAX_ID = (1n << 63n) - 1n;

/** `[a-z0-9_.-]`, so that the zero byte behind it ends the name without doubt. */
const VIEW_NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$/;

/**
 * The key of one row: view name, a zero byte, the id as 8 bytes big-endian with the sign bit flipped (so that keys sort
 * as ids do). Ids keep all 64 bits.
 * @throws RangeError for an id outside int64 or an invalid view name
 */
export function featureKey(view: string, id: bigint): Buffer {
  if (!VIEW_NAME.test(view)) throw new RangeError(`feature view "${view}": the name must match ${VIEW_NAME.source}`);
  if (id < MIN_ID || id > MAX_ID) throw new RangeError(`feature view "${view}": entity id ${id} is outside int64`);
  const key = Buffer.allocUnsafe(view.length + 9);
  key.write(view, 0, "latin1");
  key[view.length] = 0;
  key.writeBigUInt64BE(BigInt.asUintN(64, id) ^ (1n << 63n), view.length + 1);
  return key;
}

/** The key under which a view's width (uint32 little-endian) stands: shorter than any row's. */
export function viewKey(view: string): Buffer {
  return featureKey(view, 0n).subarray(0, view.length + 1);
}
