import { clearOut, out, outLength, outPointer } from "./arena";
import { proxy_get_header_map_pairs } from "./host-functions";
import { Status } from "./constants";
import { Span } from "./span";

/**
 * All headers of a map in one host call, read in one pass. Cheaper than single look-ups from the second header that is
 * present, and the only way to see repeated headers: look-ups give the first value only.
 *
 * The host's form: u32 count; per pair u32 name length, u32 value length; then per pair name, NUL, value, NUL.
 * Names are in lower case. Every length is checked against the block, so a broken block ends the pass early.
 *
 *   if (pairs.load(HeaderMap.Request)) while (pairs.next()) { ...pairs.name, pairs.value... }
 */
@unmanaged
export class HeaderPairs {
  /** Of the current pair; valid until the callback ends. */
  nameInBlock: usize = 0;
  nameLength: u32 = 0;
  valueInBlock: usize = 0;
  valueLength: u32 = 0;
  private block: usize = 0;
  private end: usize = 0;
  private lengths: usize = 0;
  private remaining: u32 = 0;
  private cursor: usize = 0;

  /** Reads the map and places the pass before its first pair. False when the map is not there. */
  load(map: u32): bool {
    clearOut();
    this.remaining = 0;
    this.block = 0;
    if (proxy_get_header_map_pairs(map, out, out + 4) !== Status.Ok) return false;
    this.block = outPointer();
    this.end = this.block + outLength();
    this.rewind();
    return true;
  }

  /** Places the pass before the first pair again, within the same callback. */
  rewind(): void {
    this.remaining = 0;
    if (this.block === 0 || this.end - this.block < 4) return;
    const count = load<u32>(this.block);
    // Each pair takes at least 10 bytes: two lengths and two NULs.
    if (count > <u32>(this.end - this.block - 4) / 10) return;
    this.remaining = count;
    this.lengths = this.block + 4;
    this.cursor = this.lengths + (<usize>count << 3);
  }

  /** Steps to the next pair; false at the end. */
  next(): bool {
    if (this.remaining === 0) return false;
    const nameLength = load<u32>(this.lengths);
    const valueLength = load<u32>(this.lengths, 4);
    const left = <u64>(this.end - this.cursor);
    if (<u64>nameLength + <u64>valueLength + 2 > left) {
      this.remaining = 0;
      return false;
    }
    this.nameInBlock = this.cursor;
    this.nameLength = nameLength;
    this.valueInBlock = this.cursor + nameLength + 1;
    this.valueLength = valueLength;
    this.cursor = this.valueInBlock + valueLength + 1;
    this.lengths += 8;
    this.remaining--;
    return true;
  }

  nameIs(name: Span): bool {
    return this.nameLength === name.length && memory.compare(this.nameInBlock, name.pointer, name.length) === 0;
  }

  nameStartsWith(prefix: Span): bool {
    return this.nameLength >= prefix.length && memory.compare(this.nameInBlock, prefix.pointer, prefix.length) === 0;
  }

  @inline
  copyValueTo(span: Span): void {
    span.set(this.valueInBlock, this.valueLength);
  }
}
