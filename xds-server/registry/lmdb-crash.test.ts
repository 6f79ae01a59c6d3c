import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { LmdbStore } from "./lmdb-store.js";

/** Writes pairs in one transaction each, as fast as it can, and says on stdout which ones were confirmed. */
const WRITER = `
  import { LmdbStore } from ${JSON.stringify(new URL("../dist/registry/lmdb-store.js", import.meta.url).href)};
  const clock = { nowMs: () => 0, wallMs: () => 0, schedule: () => () => undefined };
  const store = new LmdbStore(process.argv[1], clock);
  const lease = await store.grantLease(30_000);
  for (let count = Number(process.argv[2]); ; count += 1) {
    const value = String(count) + "x".repeat(count % 5000);
    await store.txn([], [
      { kind: "put", key: "/left", value },
      { kind: "put", key: "/right", value },
      { kind: "put", key: "/leased/" + (count % 7), value, lease: lease.id },
    ]);
    process.stdout.write(count + "\\n");
  }
`;

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "servemesh-crash-"));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Lets a writer confirm some transactions, then kills it in the middle of others. @returns the last confirmed one */
async function writeUntilKilled(first: number, confirmations: number): Promise<number> {
  const child = spawn(process.execPath, ["--input-type=module", "-e", WRITER, join(folder, "store"), String(first)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.on("data", (chunk) => {
    text += chunk;
    if (text.split("\n").length > confirmations) child.kill("SIGKILL");
  });
  await once(child, "close");
  return Number(text.split("\n").at(-2));
}

describe("a killed writer", () => {
  it("leaves every confirmed transaction, and none by half", async () => {
    let confirmed = 0;
    for (const round of [1, 2, 3, 4]) {
      confirmed = await writeUntilKilled(confirmed + 1, 7 * round);
      const clock = new ManualClock();
      const store = new LmdbStore(join(folder, "store"), clock);
      const { revision, items } = await store.list("/");
      const numberAt = (key: string): number =>
        Number.parseInt(items.find((item) => item.key === key)?.value ?? "", 10);
      // The one after the last confirmed may have been written too, when its line was not.
      expect([confirmed, confirmed + 1]).toContain(numberAt("/left"));
      expect(numberAt("/right")).toBe(numberAt("/left"));
      expect(items.filter((item) => item.modRevision > revision)).toEqual([]);
      expect(items.find((item) => item.key === "/left")?.modRevision).toBe(revision);
      clock.advance(30_000);
      await expect.poll(async () => (await store.list("/leased/")).items).toEqual([]);
      await store.close();
      confirmed = numberAt("/left");
    }
  });
});
