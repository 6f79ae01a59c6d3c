import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Record as JournalRecord } from "@servemesh/proto/gen/mesh/servemesh/journal/v1/journal.js";

/** Both legs of one mirrored request. */
export interface JournalPair {
  readonly primary: JournalRecord;
  readonly shadow: JournalRecord;
}

const POLL_MS = 200;

/** All records of all replicas below a journal folder. A line that is still being written is left out. */
export function readJournal(folder: string): JournalRecord[] {
  return journalFiles(folder).flatMap((file) => {
    const text = readFileSync(file, "utf8");
    const complete = text.slice(0, text.lastIndexOf("\n") + 1);
    return complete
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JournalRecord.fromJSON(JSON.parse(line)));
  });
}

/** Records of the primary leg by request id, for those ids. */
export function primaryRecords(
  records: readonly JournalRecord[],
  requestIds: readonly string[],
): ReadonlyMap<string, JournalRecord> {
  const wanted = new Set(requestIds);
  return new Map(
    records.filter(({ leg, requestId }) => leg === "primary" && wanted.has(requestId)).map((r) => [r.requestId, r]),
  );
}

/** The two legs of a request, or undefined while one is missing. */
export function findPair(records: readonly JournalRecord[], requestId: string): JournalPair | undefined {
  const legs = records.filter((record) => record.requestId === requestId);
  const primary = legs.find(({ leg }) => leg === "primary");
  const shadow = legs.find(({ leg }) => leg === "shadow");
  return primary === undefined || shadow === undefined ? undefined : { primary, shadow };
}

/**
 * Reads the journal again and again until `find` finds something, because it is written behind the answers.
 * @returns undefined after `timeoutMs`
 */
export async function pollJournal<Found>(
  folder: string,
  timeoutMs: number,
  find: (records: readonly JournalRecord[]) => Found | undefined,
): Promise<Found | undefined> {
  const stopAtMs = performance.now() + timeoutMs;
  for (;;) {
    const found = find(readJournal(folder));
    if (found !== undefined || performance.now() > stopAtMs) return found;
    await sleep(POLL_MS);
  }
}

function journalFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ndjson"))
    .map((name) => join(folder, name));
}
