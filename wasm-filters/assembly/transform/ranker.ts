/*
 * Transform `ranker`: the views of a user and of an item become the ranker's feature vector. The batcher runs this module
 * in Node, the training script runs the very same bytes in Python (wasmtime), so both see bit-equal features.
 *
 * What every transform module exports (no imports, no start section; pointers and counts are 32-bit):
 *
 *   memory                                        little-endian FP32, rows one after another
 *   view_count() -> i32                           how many views `transform` takes
 *   view_width(view: i32) -> i32                  floats per row of a view, 0 for a view that does not exist
 *   output_width() -> i32                         floats per row of the output
 *   reset()                                       forgets all blocks handed out by `alloc`
 *   alloc(bytes: i32) -> i32                      address of a block (8-aligned, not cleared), valid until `reset`;
 *                                                 0 when the module's memory limit would be passed
 *   transform(rows: i32, view0: i32, ..., viewN: i32, output: i32)
 *                                                 reads `rows` rows of each view, writes `rows` rows of output
 *
 * A caller does: reset, alloc per view and for the output, copy the views in, transform, copy the output out. `alloc` may
 * grow the memory, so take a fresh view of it afterwards. A transform works row by row, so callers may cut long inputs.
 *
 * Here: views 0 `user` (24: age, male, occupation, mean rating, rating count, 19 genre means) and 1 `item` (22: 19 genre
 * flags, year, mean rating, rating count); output 47 = user, item, and the mean of the user's genre means over the item's
 * genres. All arithmetic is FP32 in a fixed order; the copied values keep every bit, NaN payloads included.
 */

const USER_WIDTH: i32 = 24;
const USER_GENRES: i32 = 5;
const ITEM_WIDTH: i32 = 22;
const GENRES: i32 = 19;
const OUTPUT_WIDTH: i32 = USER_WIDTH + ITEM_WIDTH + 1;
const FLOAT_BYTES: i32 = 4;
const PAGE_BYTES: usize = 65536;

/** First free address; 0 before the first `reset` or `alloc`. */
let top: usize = 0;

export function view_count(): i32 {
  return 2;
}

export function view_width(view: i32): i32 {
  if (view === 0) return USER_WIDTH;
  return view === 1 ? ITEM_WIDTH : 0;
}

export function output_width(): i32 {
  return OUTPUT_WIDTH;
}

export function reset(): void {
  top = (__heap_base + 7) & ~7;
}

export function alloc(bytes: i32): usize {
  if (bytes < 0) return 0;
  if (top === 0) reset();
  const block = top;
  const end = <u64>block + ((<u64>bytes + 7) & ~7);
  const have = <u64>memory.size() * PAGE_BYTES;
  if (end > have) {
    const pages = (end - have + PAGE_BYTES - 1) / PAGE_BYTES;
    if (memory.grow(<i32>pages) < 0) return 0;
  }
  top = <usize>end;
  return block;
}

export function transform(rows: i32, user: usize, item: usize, output: usize): void {
  for (let row = 0; row < rows; row++) {
    memory.copy(output, user, USER_WIDTH * FLOAT_BYTES);
    memory.copy(output + USER_WIDTH * FLOAT_BYTES, item, ITEM_WIDTH * FLOAT_BYTES);
    store<f32>(output + (OUTPUT_WIDTH - 1) * FLOAT_BYTES, genreAffinity(user, item));
    user += USER_WIDTH * FLOAT_BYTES;
    item += ITEM_WIDTH * FLOAT_BYTES;
    output += OUTPUT_WIDTH * FLOAT_BYTES;
  }
}

/** Sum of flag x mean over the genres, divided by the sum of the flags, or by 1 where the item has no genre. */
function genreAffinity(user: usize, item: usize): f32 {
  let sum: f32 = 0;
  let flags: f32 = 0;
  for (let genre = 0; genre < GENRES; genre++) {
    const flag = load<f32>(item + genre * FLOAT_BYTES);
    sum += flag * load<f32>(user + (USER_GENRES + genre) * FLOAT_BYTES);
    flags += flag;
  }
  return sum / max<f32>(1, flags);
}
