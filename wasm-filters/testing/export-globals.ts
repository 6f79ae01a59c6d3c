/** An unsigned LEB128 number and the offset behind it. */
function readU32(bytes: Uint8Array, start: number): [value: number, end: number] {
  let value = 0;
  for (let at = start, shift = 0; ; at++, shift += 7) {
    const byte = bytes[at] ?? 0;
    value |= (byte & 127) << shift;
    if (byte < 128) return [value >>> 0, at + 1];
  }
}

function u32(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest >>>= 7) bytes.push((rest & 127) | 128);
  return [...bytes, rest];
}

interface Section {
  readonly id: number;
  readonly content: Uint8Array;
}

const CUSTOM = 0;
const EXPORT = 7;
const GLOBAL_NAMES = 7;
const GLOBAL_KIND = 3;

function sectionsOf(bytes: Uint8Array): Section[] {
  const sections: Section[] = [];
  for (let at = 8; at < bytes.length; ) {
    const [size, start] = readU32(bytes, at + 1);
    sections.push({ id: bytes[at] ?? 0, content: bytes.subarray(start, start + size) });
    at = start + size;
  }
  return sections;
}

/** Index of each named global, from the name section of a module that was built with `--debug`. */
function globalIndexes(sections: readonly Section[]): Map<string, number> {
  const indexes = new Map<string, number>();
  const names = sections.find(
    ({ id, content }) => id === CUSTOM && Buffer.from(content.subarray(1, 5)).toString() === "name",
  );
  if (names === undefined) throw new Error("the module has no name section; build it with --debug");
  for (let at = 5; at < names.content.length; ) {
    const kind = names.content[at];
    const [size, start] = readU32(names.content, at + 1);
    at = start + size;
    if (kind !== GLOBAL_NAMES) continue;
    let [left, cursor] = readU32(names.content, start);
    for (; left > 0; left--) {
      const [index, afterIndex] = readU32(names.content, cursor);
      const [length, text] = readU32(names.content, afterIndex);
      cursor = text + length;
      indexes.set(Buffer.from(names.content.subarray(text, cursor)).toString(), index);
    }
  }
  return indexes;
}

/** A copy of a module that also exports these globals by their names, so that a test can watch the module's runtime. */
export function exportGlobals(bytes: Uint8Array, names: readonly string[]): Uint8Array {
  const sections = sectionsOf(bytes);
  const indexes = globalIndexes(sections);
  const added = names.map((name) => {
    const index = indexes.get(name);
    if (index === undefined) throw new Error(`the module has no global ${name}`);
    const text = Buffer.from(name);
    return Buffer.from([...u32(text.length), ...text, GLOBAL_KIND, ...u32(index)]);
  });
  const rewritten = sections.map(({ id, content }) => {
    if (id !== EXPORT) return { id, content };
    const [count, start] = readU32(content, 0);
    return { id, content: Buffer.concat([Buffer.from(u32(count + names.length)), content.subarray(start), ...added]) };
  });
  const parts = rewritten.map(({ id, content }) => Buffer.concat([Buffer.from([id, ...u32(content.length)]), content]));
  return Buffer.concat([bytes.subarray(0, 8), ...parts]);
}
