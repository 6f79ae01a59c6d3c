import { BLOB_HEADER, BLOB_MAGIC, BLOB_MAJOR, BLOB_MINOR, DIRECTORY_ENTRY, SECTION } from "./format.js";

/** A text inside the section `strings`. */
export interface Text {
  readonly offset: number;
  readonly length: number;
}

/** One section of fixed-length records, filled in order. */
class SectionWriter {
  readonly content: Buffer;
  #at = 0;
  /** Records finished so far: the index of the next one. */
  count = 0;

  constructor(
    readonly id: number,
    readonly recordBytes: number,
    records: number,
  ) {
    this.content = Buffer.alloc(recordBytes * records);
  }

  u32(value: number): this {
    this.#at = this.content.writeUInt32LE(value, this.#at);
    return this;
  }

  u64(value: bigint): this {
    this.#at = this.content.writeBigUInt64LE(value, this.#at);
    return this;
  }

  text(text: Text): this {
    return this.u32(text.offset).u32(text.length);
  }

  bytes(bytes: Uint8Array): this {
    this.content.set(bytes, this.#at);
    this.#at += bytes.length;
    return this;
  }

  /** Checks that the record has its full length, so that a slip shows here and not in the module. */
  endRecord(): void {
    this.count += 1;
    if (this.#at !== this.count * this.recordBytes) {
      throw new Error(`record ${this.count - 1} of section ${this.id} does not have ${this.recordBytes} bytes`);
    }
  }
}

/** Collects sections and strings, then lays them out (format.ts). */
export class BlobWriter {
  readonly #sections: SectionWriter[] = [];
  readonly #texts = new Map<string, Text>();
  readonly #strings: Buffer[] = [];
  #stringBytes = 0;

  /** A section that will get exactly `records` records. */
  section(id: number, recordBytes: number, records: number): SectionWriter {
    const section = new SectionWriter(id, recordBytes, records);
    this.#sections.push(section);
    return section;
  }

  /** Place of a text in the section `strings`; equal texts share it. */
  intern(text: string): Text {
    const known = this.#texts.get(text);
    if (known) return known;
    const bytes = Buffer.from(text);
    const place = { offset: this.#stringBytes, length: bytes.length };
    this.#strings.push(bytes);
    this.#stringBytes += bytes.length;
    this.#texts.set(text, place);
    return place;
  }

  finish(): Uint8Array {
    const strings = Buffer.concat(this.#strings);
    const parts = [
      ...this.#sections.map(({ id, recordBytes, count, content }) => ({ id, recordBytes, count, bytes: content })),
      { id: SECTION.strings, recordBytes: 1, count: strings.length, bytes: strings },
    ].sort((a, b) => a.id - b.id);
    let offset = align(BLOB_HEADER + parts.length * DIRECTORY_ENTRY);
    const offsets = parts.map((part) => {
      const at = offset;
      offset = align(at + part.bytes.length);
      return at;
    });
    const blob = Buffer.alloc(offset);
    blob.writeUInt32LE(BLOB_MAGIC, 0);
    blob.writeUInt16LE(BLOB_MAJOR, 4);
    blob.writeUInt16LE(BLOB_MINOR, 6);
    blob.writeUInt32LE(blob.length, 8);
    blob.writeUInt32LE(parts.length, 12);
    parts.forEach((part, index) => {
      const entry = BLOB_HEADER + index * DIRECTORY_ENTRY;
      const at = offsets[index] as number;
      blob.writeUInt32LE(part.id, entry);
      blob.writeUInt32LE(at, entry + 4);
      blob.writeUInt32LE(part.count, entry + 8);
      blob.writeUInt32LE(part.recordBytes, entry + 12);
      blob.set(part.bytes, at);
    });
    return blob;
  }
}

function align(offset: number): number {
  return (offset + 7) & ~7;
}
