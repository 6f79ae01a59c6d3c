import { describe, expect, it } from "vitest";
import { loadTransform } from "./transform.js";

const USER_WIDTH = 24;
const ITEM_WIDTH = 22;
const OUTPUT_WIDTH = 47;

/** The same arithmetic in JavaScript; Math.fround after each step makes it FP32. */
function reference(user: Float32Array, item: Float32Array): Float32Array {
  let sum = 0;
  let flags = 0;
  for (let genre = 0; genre < 19; genre++) {
    const flag = item[genre] as number;
    sum = Math.fround(sum + Math.fround(flag * (user[5 + genre] as number)));
    flags = Math.fround(flags + flag);
  }
  return Float32Array.of(...user, ...item, Math.fround(sum / Math.max(1, flags)));
}

function lcg(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function bytesOf(floats: Float32Array): Uint8Array {
  return new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength);
}

describe("transform ranker", () => {
  it("describes its views", async () => {
    const transform = await loadTransform("ranker");
    expect(transform.viewWidths).toEqual([USER_WIDTH, ITEM_WIDTH]);
    expect(transform.outputWidth).toBe(OUTPUT_WIDTH);
    expect(transform.digest).toMatch(/^[0-9a-f]{64}$/);
  });

  it.each([0, 1, 8, 4097])("is bit-equal to the reference for %i rows", async (rows) => {
    const transform = await loadTransform("ranker");
    const random = lcg(rows + 1);
    const user = Float32Array.from({ length: rows * USER_WIDTH }, () => random() * 10 - 5);
    const item = Float32Array.from({ length: rows * ITEM_WIDTH }, (_, index) =>
      index % ITEM_WIDTH < 19 ? Number(random() < 0.2) : random(),
    );
    const output = transform.run(rows, [bytesOf(user), bytesOf(item)]);
    const expected = new Float32Array(rows * OUTPUT_WIDTH);
    for (let row = 0; row < rows; row++) {
      const features = reference(
        user.subarray(row * USER_WIDTH, (row + 1) * USER_WIDTH),
        item.subarray(row * ITEM_WIDTH, (row + 1) * ITEM_WIDTH),
      );
      expected.set(features, row * OUTPUT_WIDTH);
    }
    expect(Buffer.compare(output, bytesOf(expected))).toBe(0);
  });

  it("copies NaN payloads unchanged", async () => {
    const transform = await loadTransform("ranker");
    const user = new Uint8Array(USER_WIDTH * 4);
    user.set([0x01, 0x02, 0xc0, 0x7f], 0);
    const output = transform.run(1, [user, new Uint8Array(ITEM_WIDTH * 4)]);
    expect([...output.subarray(0, 4)]).toEqual([0x01, 0x02, 0xc0, 0x7f]);
  });

  it("names the view whose length is wrong", async () => {
    const transform = await loadTransform("ranker");
    expect(() => transform.run(1, [new Uint8Array(96), new Uint8Array(87)])).toThrow(
      "transform ranker: view 1 must have 88 bytes (1 rows of 22 FP32), got 87",
    );
    expect(() => transform.run(1, [new Uint8Array(96)])).toThrow("takes 2 views, got 1");
    expect(() => transform.run(-1, [])).toThrow("rows is -1");
  });

  it("refuses a name that is no file name and one that is not built", async () => {
    await expect(loadTransform("../gate")).rejects.toThrow("must match");
    await expect(loadTransform("nosuch")).rejects.toThrow("is not built");
  });
});
