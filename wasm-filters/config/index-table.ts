/** Slots per entry, at least; half-empty tables keep probes short. */
const SPACE = 2;

/** FNV-1a (32 bits) with a final mix, because the low bits choose the slot. The module computes the same. */
export function hashBytes(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  return hash >>> 0;
}

/** Open-addressing table over records with these hashes: record + 1 per slot, 0 for an empty one. Never full. */
export function indexTable(hashes: readonly number[]): Uint32Array {
  let slots = 1;
  while (slots < hashes.length * SPACE + 1) slots *= 2;
  const table = new Uint32Array(slots);
  hashes.forEach((hash, record) => {
    let slot = hash & (slots - 1);
    while (table[slot] !== 0) slot = (slot + 1) & (slots - 1);
    table[slot] = record + 1;
  });
  return table;
}
