import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { LmdbStore } from "./lmdb-store.js";
import { storeContract } from "./store-contract.js";

let folder: string;
let clock: ManualClock;
let stores: LmdbStore[];

beforeEach(() => {
  folder = join(mkdtempSync(join(tmpdir(), "servemesh-store-")), "store");
  clock = new ManualClock();
  stores = [];
});

afterEach(async () => {
  for (const store of stores) await store.close();
  rmSync(join(folder, ".."), { recursive: true, force: true });
});

function open(): LmdbStore {
  const store = new LmdbStore(folder, clock);
  stores.push(store);
  return store;
}

describe("the store contract", () => {
  it.each(storeContract)("$name", async ({ run }) => {
    await run({
      open: async () => open(),
      reopen: async (store) => {
        await store.close();
        return open();
      },
      pass: async (ms) => clock.advance(ms),
    });
  });
});

describe("LmdbStore", () => {
  it("keeps its files to the user", () => {
    open();
    for (const name of ["registry.mdb", "registry.mdb-lock"]) {
      expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
    }
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  });

  it("refuses a second opener in the same process, naming the path", () => {
    open();
    expect(() => open()).toThrow(`store ${folder} cannot be opened: it is open in this process already`);
  });

  it("refuses a second process while the first lives, and is free after a kill", async () => {
    const script = `
      import { openLmdbFile } from ${JSON.stringify(new URL("../dist/registry/lmdb-file.js", import.meta.url).href)};
      openLmdbFile(${JSON.stringify(folder)});
      console.log("open");
      setInterval(() => undefined, 1_000);
    `;
    const other = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      await once(other.stdout, "data");
      expect(() => open()).toThrow(`store ${folder} cannot be opened: process ${other.pid} uses it; stop that process`);
    } finally {
      other.kill("SIGKILL");
      await once(other, "exit");
    }
    await expect(open().list("/")).resolves.toEqual({ revision: 0n, items: [] });
  });

  it.each([
    ["something else", () => "hello".repeat(10_000), "registry.mdb is not an LMDB file"],
    ["the start of a file", (whole: Buffer) => whole.subarray(0, 8_192), "registry.mdb is cut short"],
    ["one byte", () => "x", "registry.mdb is not an LMDB file"],
  ])("refuses %s instead of ending the process", async (_, contentOf, problem) => {
    const store = open();
    await store.txn([], [{ kind: "put", key: "/a", value: "1" }]);
    await store.close();
    const path = join(folder, "registry.mdb");
    writeFileSync(path, contentOf(readFileSync(path)));
    expect(() => open()).toThrow(`store ${folder} cannot be opened: ${problem}`);
  });

  it("is closed only once, and says so afterwards", async () => {
    const store = open();
    await store.close();
    await store.close();
    await expect(store.list("/")).rejects.toThrow("is closed");
  });
});
