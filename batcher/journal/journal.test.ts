import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Record as JournalRecord } from "@servemesh/proto/gen/mesh/servemesh/journal/v1/journal.js";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createFileJournal, type JournalOptions } from "./journal.js";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "servemesh-journal-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function setUp(over: Partial<JournalOptions> = {}) {
  const counts = { written: 0, dropped: 0 };
  const journal = createFileJournal({
    directory: join(directory, "replica-1"),
    startedAt: new Date(1_700_000_000_000),
    maxBufferedBytes: 1e6,
    maxFileBytes: 1e6,
    logger: pino({ level: "silent" }),
    written: (records) => {
      counts.written += records;
    },
    dropped: (records) => {
      counts.dropped += records;
    },
    ...over,
  });
  return { journal, counts };
}

const record = (requestId: string): JournalRecord =>
  JournalRecord.fromPartial({
    requestId,
    leg: "shadow",
    at: new Date(1_700_000_000_123),
    inputs: [{ name: "user_id", datatype: "INT64", shape: [1n, 1n], data: Buffer.from([1, 2, 3]), truncatedBytes: 5 }],
    stageUs: { infer: 11_000 },
  });

describe("createFileJournal", () => {
  it("writes one line of proto3 JSON per record, readable by its owner only", async () => {
    const { journal, counts } = setUp();
    const records = Array.from({ length: 200 }, (_, index) => record(`r${index}`));
    for (const one of records) journal.write(one);
    await journal.close();
    const [file] = readdirSync(join(directory, "replica-1"));
    const path = join(directory, "replica-1", file ?? "");
    const lines = readFileSync(path, "utf8").trimEnd().split("\n");
    expect(lines.map((line) => JournalRecord.fromJSON(JSON.parse(line)))).toEqual(records);
    expect(JSON.parse(lines[0] ?? "").inputs[0]).toMatchObject({ shape: ["1", "1"], data: "AQID", truncatedBytes: 5 });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(counts).toEqual({ written: 200, dropped: 0 });
  });

  it("drops and counts what the buffer does not hold, without waiting", async () => {
    const { journal, counts } = setUp({ maxBufferedBytes: 5000 });
    for (let index = 0; index < 100; index += 1) journal.write(record("r"));
    await journal.close();
    journal.write(record("after the end"));
    expect(counts.written).toBeGreaterThan(0);
    expect(counts.written + counts.dropped).toBe(101);
  });

  it("stops at the file's limit", async () => {
    const { journal, counts } = setUp({ maxFileBytes: 100 });
    journal.write(record("a"));
    await new Promise((resolve) => setTimeout(resolve, 50));
    journal.write(record("b"));
    await journal.close();
    expect(counts).toEqual({ written: 1, dropped: 1 });
  });

  it("goes on when the file cannot be written", async () => {
    const { journal, counts } = setUp();
    rmSync(join(directory, "replica-1"), { recursive: true });
    journal.write(record("a"));
    await journal.close();
    expect(counts).toEqual({ written: 0, dropped: 1 });
  });
});
