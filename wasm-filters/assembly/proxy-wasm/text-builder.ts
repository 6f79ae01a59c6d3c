import { Span } from "./span";

/**
 * Writes texts into a block of fixed size. What does not fit is left out, so a long value can shorten a text but never
 * overrun it. Reuse one builder: `begin`, append, `end`.
 */
@unmanaged
export class TextBuilder {
  private block: usize = 0;
  private limit: usize = 0;
  private cursor: usize = 0;

  @inline
  begin(block: usize, size: usize): void {
    this.block = block;
    this.limit = block + size;
    this.cursor = block;
  }

  bytes(pointer: usize, length: u32): void {
    const fits = min<usize>(length, this.limit - this.cursor);
    memory.copy(this.cursor, pointer, fits);
    this.cursor += fits;
  }

  @inline
  span(text: Span): void {
    this.bytes(text.pointer, text.length);
  }

  byte(value: u8): void {
    if (this.cursor < this.limit) store<u8>(this.cursor++, value);
  }

  decimal(value: u64): void {
    let divisor: u64 = 1;
    while (value / divisor >= 10) divisor *= 10;
    for (; divisor > 0; divisor /= 10) this.byte(<u8>(48 + ((value / divisor) % 10)));
  }

  /** `value` with leading zeros to `digits` digits; for fractions. */
  paddedDecimal(value: u32, digits: u32): void {
    let divisor: u32 = 1;
    for (let digit: u32 = 1; digit < digits; digit++) divisor *= 10;
    for (; divisor > 0; divisor /= 10) this.byte(<u8>(48 + ((value / divisor) % 10)));
  }

  @inline
  get pointer(): usize {
    return this.block;
  }

  @inline
  get length(): u32 {
    return <u32>(this.cursor - this.block);
  }
}
