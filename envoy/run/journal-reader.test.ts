import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { findPair, pollJournal, primaryRecords, readJournal } from "./journal-reader.js";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "servemesh-journal-"));
  const write = (replica: string, lines: readonly string[]): void => {
    mkdirSync(join(folder, replica));
    writeFileSync(join(folder, replica, "1.ndjson"), lines.join("\n"));
  };
  const record = (requestId: string, leg: string, servedBy: string): string =>
    JSON.stringify({ requestId, leg, servedBy, batchSize: 8 });
  write("ranker-41", [
    record("a", "primary", "ranker:41"),
    record("b", "primary", "ranker:41"),
    '{"requestId":"c","le',
  ]);
  write("ranker-43", [record("a", "shadow", "ranker:43"), ""]);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("reads the records of all replicas and leaves out a line that is being written", () => {
  expect(readJournal(folder).map(({ requestId, leg }) => `${requestId} ${leg}`)).toEqual([
    "a primary",
    "b primary",
    "a shadow",
  ]);
});

it("joins both legs by request id", () => {
  const records = readJournal(folder);
  expect(findPair(records, "a")?.shadow.servedBy).toBe("ranker:43");
  expect(findPair(records, "b")).toBeUndefined();
  expect([...primaryRecords(records, ["a", "c"]).keys()]).toEqual(["a"]);
});

it("gives up after the time", async () => {
  expect(await pollJournal(folder, 0, (records) => findPair(records, "b"))).toBeUndefined();
  expect(await pollJournal(folder, 0, (records) => records.length)).toBe(3);
});
