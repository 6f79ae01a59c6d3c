/*
 * Memory for what the host hands over. The host calls our `malloc` for each answer with bytes; nobody ever frees such a
 * block, so all blocks of a callback live in one arena that is emptied when the next callback begins. No block is an
 * object of the garbage collector, so a request costs no collection and memory stays flat.
 *
 * Rule: call `enterCallback()` first in every exported callback, and copy what must outlive the callback.
 */

const ARENA_BYTES: usize = 65536;
const arena: usize = heap.alloc(ARENA_BYTES);
let used: usize = 0;
/** Blocks that did not fit: a list, linked through the 8 bytes in front of each block. */
let overflow: usize = 0;
const LINK_BYTES: usize = 8;

/** Export this under its own name: the host calls it. Blocks are 8-aligned. */
export function malloc(size: usize): usize {
  const bytes = (size + 7) & ~7;
  // Not `used + bytes <= ARENA_BYTES`, which wraps for sizes near 4 GiB.
  if (size <= ARENA_BYTES && bytes <= ARENA_BYTES - used) {
    const block = arena + used;
    used += bytes;
    return block;
  }
  const block = heap.alloc(size + LINK_BYTES);
  store<usize>(block, overflow);
  overflow = block;
  return block + LINK_BYTES;
}

/** Empties the arena: begin every callback with it. */
@inline
export function enterCallback(): void {
  used = 0;
  if (overflow !== 0) freeOverflow();
}

function freeOverflow(): void {
  while (overflow !== 0) {
    const next = load<usize>(overflow);
    heap.free(overflow);
    overflow = next;
  }
}

/** Bytes until the end of the callback, for texts that a filter builds; same as `malloc`. */
@inline
export function scratch(size: usize): usize {
  return malloc(size);
}

/** Addresses that host functions write their answers to. One set suffices: the host only re-enters through `malloc`. */
export const out: usize = memory.data(32);

/** Clears the answer addresses, because some calls answer Ok without writing when there is nothing. */
@inline
export function clearOut(): void {
  store<u64>(out, 0);
}

@inline
export function outPointer(): usize {
  return load<u32>(out);
}

@inline
export function outLength(): u32 {
  return load<u32>(out, 4);
}
