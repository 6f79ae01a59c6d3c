import { findPair, type JournalPair, pollJournal } from "../../run/journal-reader.js";
import { checkEqual } from "../check.js";
import type { Story } from "../story.js";

const TIMEOUT_MS = 10_000;

/** The same request in both legs of the journal: what the caller got, and what v43 would have said. */
export const shadowPair: Story = {
  title: "a shadow pair in the journal",
  async play({ mesh, client, nextPair }) {
    const answer = await client.predict(nextPair());
    const pair = await pollJournal(mesh.journalFolder, TIMEOUT_MS, (records) =>
      findPair(records, answer.requestId ?? ""),
    );
    return {
      checks: [
        checkEqual("shadow: both legs are in the journal", pair !== undefined, true),
        checkEqual("shadow: the primary leg is what the caller was told", pair?.primary.servedBy, answer.servedBy),
        checkEqual("shadow: the other leg was served by", pair?.shadow.servedBy, "ranker:43"),
        checkEqual("shadow: both legs saw the same features", sameFeatures(pair), true),
        checkEqual("shadow: the primary leg's score is the caller's", primaryScore(pair), fround(answer.score)),
        checkEqual("shadow: the other leg has a score", shadowScore(pair) !== undefined, true),
      ],
      lines: [
        `request ${answer.requestId}: ${pair?.primary.servedBy} said ${primaryScore(pair)?.toFixed(4)}, ` +
          `${pair?.shadow.servedBy} would have said ${shadowScore(pair)?.toFixed(4)}`,
      ],
    };
  },
};

function sameFeatures(pair: JournalPair | undefined): boolean {
  const [primary] = pair?.primary.upstreamInputs ?? [];
  const [shadow] = pair?.shadow.upstreamInputs ?? [];
  return primary !== undefined && shadow !== undefined && Buffer.compare(primary.data, shadow.data) === 0;
}

function primaryScore(pair: JournalPair | undefined): number | undefined {
  return scoreOf(pair?.primary);
}

function shadowScore(pair: JournalPair | undefined): number | undefined {
  return scoreOf(pair?.shadow);
}

function scoreOf(record: JournalPair["primary"] | undefined): number | undefined {
  const data = record?.outputs[0]?.data;
  return data === undefined || data.length < 4 ? undefined : Buffer.from(data).readFloatLE(0);
}

function fround(value: number | undefined): number | undefined {
  return value === undefined ? undefined : Math.fround(value);
}
