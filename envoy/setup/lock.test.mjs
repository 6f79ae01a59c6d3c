import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { takeLock } from "./lock.mjs";

let dir;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "lock-test-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const mustNotWait = () => {
  throw new Error("waited for a lock that nobody holds");
};

it("lets one in at a time, and the next one in afterwards", async () => {
  const unlock = await takeLock(mustNotWait, dir);
  const waitedFor = [];
  let second;
  const taken = takeLock((pid) => waitedFor.push(Number(pid)), dir).then((give) => {
    second = give;
  });
  await expect.poll(() => waitedFor).toEqual([process.pid]);
  expect(second).toBeUndefined();
  unlock();
  await taken;
  second();
  expect(readdirSync(dir)).toEqual([]);
});

it.each([
  ["a process that is gone", "999999999 17"],
  ["another process with the same pid", `${process.pid} 1`],
  ["nobody, cut off while writing", ""],
])("takes over the lock of %s", async (_, content) => {
  writeFileSync(join(dir, "lock"), content);
  const unlock = await takeLock(mustNotWait, dir);
  expect(readdirSync(dir)).toEqual(["lock"]);
  unlock();
});
