import { beforeAll, describe, expect, it, vi } from "vitest";
import { compileFilter } from "#compile-filter";
import { randomOf } from "./gate/fixture.js";

// The compiler of AssemblyScript takes a while on a busy machine.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

/** Opens parts of the SDK that filters reach only through the host. */
const SOURCE = `
import { ContextSlab, enterCallback, HeaderPairs, literal, LocalResponse, malloc as allocate, Span, TextBuilder } from "./proxy-wasm/index";

const slab = new ContextSlab();
slab.init(12);
export function create(id: u32): usize { return slab.create(id); }
export function find(id: u32): usize { return slab.find(id); }
export function drop(id: u32): void { slab.drop(id); }
export function live(): u32 { return slab.live; }

export function enter(): void { enterCallback(); }
export function malloc(size: usize): usize { return allocate(size); }

const pairs = new HeaderPairs();
export function loadPairs(): u32 { return pairs.load(0) ? 1 : 0; }
export function nextPair(): u32 { return pairs.next() ? 1 : 0; }
export function rewindPairs(): void { pairs.rewind(); }
export function nameAt(): usize { return pairs.nameInBlock; }
export function nameLength(): u32 { return pairs.nameLength; }
export function valueAt(): usize { return pairs.valueInBlock; }
export function valueLength(): u32 { return pairs.valueLength; }

const text = new TextBuilder();
export function build(block: usize, size: usize, value: u64, digits: u32, padded: u32): u32 {
  text.begin(block, size);
  text.decimal(value);
  text.byte(0x2e);
  text.paddedDecimal(padded, digits);
  return text.length;
}

const response = new LocalResponse();
const name = literal("x-a");
const value = new Span();
export function answer(headers: u32, at: usize, length: u32): void {
  value.set(at, length);
  response.begin();
  for (let index: u32 = 0; index < headers; index++) response.header(name, value);
  response.send(400, 3, name, 0, 0);
}

const lower = literal("bearer ");
export function ignoreCase(at: usize, length: u32): u32 {
  value.set(at, length);
  return value.startsWithIgnoreCase(lower) ? 1 : 0;
}
`;

type Call = (...parameters: (number | bigint)[]) => number;

interface Sdk {
  readonly memory: WebAssembly.Memory;
  readonly call: Record<string, Call>;
  /** The next answer of proxy_get_header_map_pairs. */
  block: Buffer | undefined;
  blockAt: number;
  /** Header block of the last local response. */
  sent: Buffer;
}

let sdk: Sdk;

function bytesAt(address: number, length: number): Buffer {
  return Buffer.from(sdk.memory.buffer, address >>> 0, length);
}

function call(name: string, ...parameters: (number | bigint)[]): number {
  return (sdk.call[name] as Call)(...parameters) >>> 0;
}

beforeAll(async () => {
  const bytes = await compileFilter(SOURCE, ["--exportStart", "_initialize", "--use", "abort=pwAbort"]);
  const imports = {
    proxy_log: () => 0,
    proxy_get_header_map_pairs: (_map: number, outPointer: number, outLength: number) => {
      if (sdk.block === undefined) return 2;
      sdk.blockAt = call("malloc", sdk.block.length);
      bytesAt(sdk.blockAt, sdk.block.length).set(sdk.block);
      bytesAt(outPointer, 4).writeUInt32LE(sdk.blockAt);
      bytesAt(outLength, 4).writeUInt32LE(sdk.block.length);
      return 0;
    },
    proxy_send_local_response: (...parameters: number[]) => {
      sdk.sent = Buffer.from(bytesAt(parameters[5] as number, parameters[6] as number));
      return 0;
    },
  };
  const { instance } = await WebAssembly.instantiate(bytes, { env: imports });
  sdk = {
    memory: instance.exports.memory as WebAssembly.Memory,
    call: instance.exports as Record<string, Call>,
    block: undefined,
    blockAt: 0,
    sent: Buffer.alloc(0),
  };
  call("_initialize");
});

describe("ContextSlab", () => {
  it("is a map from id to record, over 200,000 random operations with up to 5,000 live streams", () => {
    const random = randomOf(5);
    const EMPTY = Buffer.alloc(12);
    const known = new Map<number, number>();
    let nextId = 1;
    for (let round = 0; round < 200_000; round++) {
      const grows = Math.floor(round / 20_000) % 2 === 0;
      const some = nextId - 1 - random(Math.min(nextId, 6000));
      if (random(4) < (grows ? 3 : 1) && known.size < 5000) {
        // Ids count up, and now and then one is used again.
        const id = random(20) === 0 ? Math.max(1, some) : nextId++;
        const record = call("create", id);
        if (!bytesAt(record, 12).equals(EMPTY)) throw new Error(`round ${round}: the record of ${id} is not cleared`);
        bytesAt(record, 12).fill(id & 0xff);
        known.set(id, record);
      } else {
        call("drop", some);
        known.delete(some);
      }
      // Compared by hand, because 400,000 calls of expect take most of a minute.
      if (call("live") !== known.size || call("find", some) !== (known.get(some) ?? 0)) {
        throw new Error(`round ${round}: the slab and the map differ for ${some}`);
      }
    }
    expect(new Set(known.values()).size).toBe(known.size);
    const intact = [...known].every(
      ([id, record]) => call("find", id) === record && bytesAt(record, 12).equals(Buffer.alloc(12, id & 0xff)),
    );
    expect(intact).toBe(true);
  });
});

describe("the arena", () => {
  it("hands out blocks that do not overlap, of any size, and empties with the next callback", () => {
    const random = randomOf(9);
    call("enter");
    const first = call("malloc", 1);
    for (let round = 0; round < 500; round++) {
      call("enter");
      const blocks: [start: number, end: number][] = [];
      for (let count = 0; count < 40; count++) {
        const size = random(10) === 0 ? random(200_000) : random(3000);
        const start = call("malloc", size);
        if (start % 8 !== 0) throw new Error(`a block at ${start} is not aligned`);
        blocks.push([start, start + size]);
      }
      blocks.sort((a, b) => a[0] - b[0]);
      const apart = blocks.every(([start], index) => index === 0 || start >= (blocks[index - 1]?.[1] ?? 0));
      expect(apart, `round ${round}`).toBe(true);
    }
    call("enter");
    expect(call("malloc", 1)).toBe(first);
  });
});

describe("HeaderPairs", () => {
  function read(block: Buffer | undefined): [string, string][] {
    call("enter");
    sdk.block = block;
    if (call("loadPairs") === 0) return [];
    const found: [string, string][] = [];
    while (call("nextPair") === 1) {
      const [at, length, valueAt, valueLength] = [
        call("nameAt"),
        call("nameLength"),
        call("valueAt"),
        call("valueLength"),
      ];
      const end = sdk.blockAt + (block?.length ?? 0);
      if (at < sdk.blockAt || valueAt !== at + length + 1 || valueAt + valueLength >= end) {
        throw new Error(`a pair lies outside the block: ${[at, length, valueAt, valueLength, sdk.blockAt, end]}`);
      }
      found.push([bytesAt(at, length).toString("latin1"), bytesAt(valueAt, valueLength).toString("latin1")]);
    }
    return found;
  }

  /** Two pairs: `a: xy` and `:path: ` with an empty value. */
  const block = Buffer.from("02000000010000000200000005000000000000006100787900" + "3a706174680000", "hex");

  it("reads names and values, an empty one included, and again after rewind", () => {
    expect(read(block)).toEqual([
      ["a", "xy"],
      [":path", ""],
    ]);
    call("rewindPairs");
    expect(call("nextPair")).toBe(1);
    expect(bytesAt(call("nameAt"), 1).toString()).toBe("a");
  });

  it("a map that is not there, an empty block and an empty list have no pairs", () => {
    expect(read(undefined)).toEqual([]);
    expect(call("nextPair")).toBe(0);
    for (const size of [0, 3, 4]) expect(read(Buffer.alloc(size))).toEqual([]);
  });

  it("never leaves the block, however broken it is: 20,000 damaged ones", () => {
    const random = randomOf(4);
    for (let round = 0; round < 20_000; round++) {
      const broken = Buffer.from(block.subarray(0, random(block.length + 1)));
      for (let change = 1 + random(4); change > 0 && broken.length > 0; change--)
        broken[random(broken.length)] = [0, 1, 0x7f, 0xff, random(256)][random(5)] as number;
      expect(read(broken).length).toBeLessThanOrEqual(4);
    }
  });
});

describe("texts", () => {
  it("numbers are written in full, and cut at the end of the block, never behind it", () => {
    call("enter");
    const at = call("malloc", 64);
    const build = (size: number, value: bigint, padded = 7, digits = 3) => {
      bytesAt(at, 64).fill(0x7a);
      const length = call("build", at, size, value, digits, padded);
      expect(bytesAt(at + size, 64 - size).every((byte) => byte === 0x7a)).toBe(true);
      return bytesAt(at, length).toString();
    };
    expect(build(64, 0n)).toBe("0.007");
    expect(build(64, 10n, 999)).toBe("10.999");
    expect(build(64, 18446744073709551615n)).toBe("18446744073709551615.007");
    for (let size = 0; size < 10; size++) expect(build(size, 123456n)).toBe("123456.007".slice(0, size));
  });

  it("are compared without case in ASCII only", () => {
    call("enter");
    const at = call("malloc", 16);
    const matches = (text: string) => {
      bytesAt(at, 16).write(text, "latin1");
      return call("ignoreCase", at, text.length);
    };
    for (const text of ["bearer ", "BEARER x", "bEaReR "]) expect(matches(text)).toBe(1);
    // Each differs from a matching byte by the bit that makes case, or is too short.
    for (const text of ["bearer", "bearer\0", "\x02earer ", "BEARER@", "\xc2earer "]) expect(matches(text)).toBe(0);
  });
});

describe("LocalResponse", () => {
  it("leaves out what does not fit, and its block is exact", () => {
    call("enter");
    const at = call("malloc", 4096);
    bytesAt(at, 4096).fill(0x62);
    for (const [headers, length, expected] of [
      [0, 0, 0],
      [1, 0, 1],
      [3, 10, 3],
      [17, 1, 16],
      [4, 600, 3],
      [1, 4000, 0],
    ] as const) {
      call("answer", headers, at, length);
      expect(sdk.sent.readUInt32LE(0)).toBe(expected);
      expect(sdk.sent.length).toBe(4 + expected * (8 + 3 + 1 + length + 1));
    }
  });
});
