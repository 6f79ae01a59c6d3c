import { checkBetween, checkEqual } from "../check.js";
import { sendCalls } from "../load.js";
import { countSplit, percentile, round, sharePercent } from "../split-statistics.js";
import type { Story } from "../story.js";

const CALLS = 3_000;
const CLIENTS = 8;
/** 5 % of 3,000 calls are within these bounds in all but one of a billion runs. */
const CANARY_LOW_PERCENT = 2.5;
const CANARY_HIGH_PERCENT = 7.5;

/** Envoy draws the version of each call: 95 % v41, 5 % v42. */
export const trafficSplit: Story = {
  title: `${CALLS.toLocaleString("en")} calls show the 95/5 split`,
  async play({ client, nextPair }) {
    const startedMs = performance.now();
    const answers = await sendCalls(CALLS, CLIENTS, () => client.predict(nextPair()));
    const seconds = (performance.now() - startedMs) / 1000;
    const split = countSplit(answers);
    const times = answers.map(({ totalMs }) => totalMs);
    const canary = sharePercent(split, "ranker:42");
    return {
      checks: [
        checkEqual("split: calls that failed", split.failed, 0),
        checkBetween("split: share of ranker:42 in percent", canary, CANARY_LOW_PERCENT, CANARY_HIGH_PERCENT),
        checkEqual(
          "split: share of ranker:41 and ranker:42 in percent",
          round(canary + sharePercent(split, "ranker:41")),
          100,
        ),
      ],
      lines: [
        `${[...split.byVersion].map(([version, count]) => `${version} ${count}`).join(", ")}; failed ${split.failed}` +
          (split.firstFailure === undefined ? "" : ` (${split.firstFailure})`),
        `${seconds.toFixed(1)} s, ${(CALLS / seconds).toFixed(0)} calls/s from ${CLIENTS} clients, ` +
          `p50 ${percentile(times, 0.5).toFixed(1)} ms, p99 ${percentile(times, 0.99).toFixed(1)} ms`,
      ],
    };
  },
};
