/**
 * Bytes of the module's memory, by address and length. Spans of host answers are valid until the callback ends; those of
 * `literal` for ever. Being unmanaged they cost the garbage collector nothing; `length` 0 with `pointer` 0 means absent.
 */
@unmanaged
export class Span {
  pointer: usize = 0;
  length: u32 = 0;

  @inline
  set(pointer: usize, length: u32): void {
    this.pointer = pointer;
    this.length = length;
  }

  @inline
  copyFrom(other: Span): void {
    this.pointer = other.pointer;
    this.length = other.length;
  }

  @inline
  clear(): void {
    this.set(0, 0);
  }

  /** True when bytes are there; an empty value that is there counts as present. */
  @inline
  get present(): bool {
    return this.pointer !== 0;
  }

  equals(other: Span): bool {
    return this.length === other.length && memory.compare(this.pointer, other.pointer, this.length) === 0;
  }

  startsWith(prefix: Span): bool {
    return this.length >= prefix.length && memory.compare(this.pointer, prefix.pointer, prefix.length) === 0;
  }

  /** Equal but for the case of ASCII letters; `lower` must be in lower case. */
  equalsIgnoreCase(lower: Span): bool {
    return this.length === lower.length && this.startsWithIgnoreCase(lower);
  }

  /** Starts with `lower`, whatever the case of ASCII letters; `lower` must be in lower case. */
  startsWithIgnoreCase(lower: Span): bool {
    if (this.length < lower.length) return false;
    for (let index: u32 = 0; index < lower.length; index++) {
      let byte = load<u8>(this.pointer + index);
      if (byte - 65 < 26) byte |= 32;
      if (byte !== load<u8>(lower.pointer + index)) return false;
    }
    return true;
  }

  /** Byte at an index below `length`; unchecked. */
  @inline
  at(index: u32): u8 {
    return load<u8>(this.pointer + index);
  }
}

/** A text as UTF-8 that stays for ever. Only for top-level constants: each call takes memory that is never freed. */
export function literal(text: string): Span {
  const length = String.UTF8.byteLength(text);
  const pointer = heap.alloc(<usize>max(length, 1));
  String.UTF8.encodeUnsafe(changetype<usize>(text), text.length, pointer);
  const span = new Span();
  span.set(pointer, <u32>length);
  return span;
}
