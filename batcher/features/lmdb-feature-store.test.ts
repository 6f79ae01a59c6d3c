import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FeatureStoreError } from "./feature-store.js";
import { openFeatureWriter } from "./feature-writer.js";
import { LmdbFeatureStore } from "./lmdb-feature-store.js";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "servemesh-features-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const MIN = -(2n ** 63n);
const MAX = 2n ** 63n - 1n;

async function fill(): Promise<void> {
  const writer = openFeatureWriter(directory);
  await writer.writeView("user", 2, [
    { id: 2n ** 53n, values: [1, 2] },
    { id: 2n ** 53n + 1n, values: [3, 4] },
    { id: MIN, values: [5, 6] },
    { id: MAX, values: [0.1, Number.NaN] },
    { id: -1n, values: [7, 8] },
  ]);
  await writer.writeView("user2", 1, [{ id: 1n, values: [9] }]);
  await writer.close();
}

const values = (data: Uint8Array): number[] => [...new Float32Array(Uint8Array.from(data).buffer)];

describe("LmdbFeatureStore", () => {
  it("reads all views of a request in one call, with exact 64-bit ids", async () => {
    await fill();
    const store = new LmdbFeatureStore(directory);
    const [user, other] = await store.fetch([
      { view: "user", width: 2, ids: [2n ** 53n + 1n, 2n ** 53n, MIN, MAX, -1n] },
      { view: "user2", width: 1, ids: [1n] },
    ]);
    expect(values(user?.data ?? new Uint8Array())).toEqual([3, 4, 1, 2, 5, 6, Math.fround(0.1), Number.NaN, 7, 8]);
    expect(values(other?.data ?? new Uint8Array())).toEqual([9]);
    await store.close();
  });

  it("gives zeros for unknown entities, and counts them", async () => {
    await fill();
    const store = new LmdbFeatureStore(directory);
    const [rows] = await store.fetch([{ view: "user", width: 2, ids: [12345n, -1n] }]);
    expect([values(rows?.data ?? new Uint8Array()), rows?.missing]).toEqual([[0, 0, 7, 8], 1]);
    await store.close();
  });

  it("refuses unknown views and other widths when a version is assigned", async () => {
    await fill();
    const store = new LmdbFeatureStore(directory);
    expect(() => store.check("user", 2)).not.toThrow();
    expect(() => store.check("user", 3)).toThrow(/has 2 values per row/);
    expect(() => store.check("use", 2)).toThrow(/not in/);
    await expect(store.fetch([{ view: "user", width: 3, ids: [-1n] }])).rejects.toBeInstanceOf(FeatureStoreError);
    await store.close();
  });

  it("replaces a view as a whole", async () => {
    await fill();
    const writer = openFeatureWriter(directory);
    await writer.writeView("user", 2, [{ id: 1n, values: [1, 1] }]);
    await writer.close();
    const store = new LmdbFeatureStore(directory);
    const [rows, other] = await store.fetch([
      { view: "user", width: 2, ids: [1n, -1n] },
      { view: "user2", width: 1, ids: [1n] },
    ]);
    expect([values(rows?.data ?? new Uint8Array()), rows?.missing, other?.missing]).toEqual([[1, 1, 0, 0], 1, 0]);
    await store.close();
  });

  it("says what is missing and how to get it", () => {
    expect(() => new LmdbFeatureStore(join(directory, "none"))).toThrow(
      /--features-dir: .*does not exist.*openFeatureWriter/,
    );
  });
});

describe("openFeatureWriter", () => {
  it("names the view and the row that is wrong", async () => {
    const writer = openFeatureWriter(directory);
    await expect(writer.writeView("user", 2, [{ id: 7n, values: [1] }])).rejects.toThrow(
      /"user": entity 7 has 1 values, expected 2/,
    );
    await expect(writer.writeView("user", 0, [])).rejects.toThrow(/width 0/);
    await expect(writer.writeView("a b", 1, [])).rejects.toThrow(/name must match/);
    await expect(writer.writeView("user", 1, [{ id: MAX + 1n, values: [1] }])).rejects.toThrow(/outside int64/);
    await writer.close();
  });
});
