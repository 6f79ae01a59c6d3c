import { pollJournal, primaryRecords } from "../../run/journal-reader.js";
import { checkEqual } from "../check.js";
import type { PredictAnswer } from "../predict-client.js";
import { findStickyHeaders } from "../sticky-key.js";
import type { Stage, Story } from "../story.js";

const BATCH = 8;
/** On a busy machine the eight do not always reach the batcher within the queue's delay, so it is tried again. */
const TIMEOUT_MS = 30_000;
const JOURNAL_TIMEOUT_MS = 10_000;

/** Eight different calls at the same time, by a caller that the split keeps on v41, leave as one batch. */
export const sharedBatch: Story = {
  title: `${BATCH} concurrent calls share a batch`,
  async play(stage) {
    const headers = await findStickyHeaders(stage, "ranker:41");
    let sizes: number[] = [];
    let answers: PredictAnswer[] = [];
    let tries = 0;
    const startedMs = performance.now();
    while (!isShared(sizes) && performance.now() - startedMs < TIMEOUT_MS && !stage.abort.aborted) {
      tries += 1;
      answers = await Promise.all(
        Array.from({ length: BATCH }, () => stage.client.predict(stage.nextPair(), { headers })),
      );
      sizes = await batchSizes(stage, answers);
    }
    const versions = [...new Set(answers.map(({ servedBy }) => servedBy))].join(", ");
    return {
      checks: [
        checkEqual("shared batch: calls answered", answers.filter(({ status }) => status === 200).length, BATCH),
        checkEqual("shared batch: served by", versions, "ranker:41"),
        checkEqual("shared batch: batch sizes in the journal", sizes.join(","), Array(BATCH).fill(BATCH).join(",")),
      ],
      lines: [
        `batch sizes ${sizes.join(" ")} after ${tries} ${tries === 1 ? "try" : "tries"}; ` +
          `waited ${waits(answers).join(" ")} ms in the queue`,
      ],
    };
  },
};

function isShared(sizes: readonly number[]): boolean {
  return sizes.length === BATCH && sizes.every((size) => size === BATCH);
}

async function batchSizes({ mesh }: Stage, answers: readonly PredictAnswer[]): Promise<number[]> {
  const ids = answers.flatMap(({ requestId }) => (requestId === undefined ? [] : [requestId]));
  const found = await pollJournal(mesh.journalFolder, JOURNAL_TIMEOUT_MS, (records) => {
    const primary = primaryRecords(records, ids);
    return primary.size === ids.length ? primary : undefined;
  });
  return [...(found?.values() ?? [])].map(({ batchSize }) => batchSize);
}

function waits(answers: readonly PredictAnswer[]): string[] {
  return answers.map(({ stages }) => (stages.get("queue") ?? Number.NaN).toFixed(1));
}
