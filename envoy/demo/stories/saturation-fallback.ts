import { checkAtLeast, checkEqual } from "../check.js";
import type { PredictAnswer } from "../predict-client.js";
import { countSplit } from "../split-statistics.js";
import type { Story } from "../story.js";

/** More at once than v41's queue (16) and the batch in flight (8) hold. */
const BURST = 40;
const TIMEOUT_MS = 20_000;

/** When v41 is full, Envoy asks `ranker-lite` in the same call; the caller gets an answer and is told. */
export const saturationFallback: Story = {
  title: "a saturated first choice falls back to ranker-lite",
  async play({ client, nextPair, abort }) {
    const startedMs = performance.now();
    const answers: PredictAnswer[] = [];
    let bursts = 0;
    while (!answers.some(isFallback) && performance.now() - startedMs < TIMEOUT_MS && !abort.aborted) {
      bursts += 1;
      answers.push(...(await Promise.all(Array.from({ length: BURST }, () => client.predict(nextPair())))));
    }
    const split = countSplit(answers);
    const fallbacks = answers.filter(isFallback);
    return {
      checks: [
        checkAtLeast("saturation: calls served by the fallback", fallbacks.length, 1),
        checkEqual("saturation: what they were told", fallbacks[0]?.servedBy, "ranker-lite:1; fallback=saturated"),
        checkEqual("saturation: calls that failed", split.failed, 0),
      ],
      lines: [
        `${answers.length} calls in ${bursts} ${bursts === 1 ? "burst" : "bursts"}: ` +
          `${[...split.byVersion].map(([version, count]) => `${version} ${count}`).join(", ")}; failed ${split.failed}` +
          (split.firstFailure === undefined ? "" : ` (${split.firstFailure})`),
      ],
    };
  },
};

function isFallback({ servedBy }: PredictAnswer): boolean {
  return servedBy?.startsWith("ranker-lite:") === true;
}
