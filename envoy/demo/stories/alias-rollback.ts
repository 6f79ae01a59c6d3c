import { setTimeout as sleep } from "node:timers/promises";
import { ackedRoutes, waitRoutesAcked } from "../../run/gateway-acks.js";
import { checkAtLeast, checkEqual } from "../check.js";
import { startLoad } from "../load.js";
import { countSplit } from "../split-statistics.js";
import type { Stage, Story } from "../story.js";

const CLIENTS = 8;
const BEFORE_MS = 1_500;
const AFTER_MS = 2_500;
const ACK_TIMEOUT_MS = 10_000;
/** Envoy's workers take a new route table up a moment after the acknowledgement; noisy machines make it longer. */
const SETTLE_MS = 1_000;

/** An operator takes the canary out while calls keep coming. */
export const aliasRollback: Story = {
  title: "ranker@prod is rolled back to 100 % v41 under load",
  async play(stage) {
    const load = startLoad(CLIENTS, () => stage.client.predict(stage.nextPair()));
    try {
      await sleep(BEFORE_MS);
      const { movedAtMs, ackMs } = await takeCanaryOut(stage);
      await sleep(AFTER_MS);
      const answers = await load.stop();
      const split = countSplit(answers);
      const settledAtMs = movedAtMs + (ackMs ?? ACK_TIMEOUT_MS) + SETTLE_MS;
      const before = answers.filter(({ sentAtMs }) => sentAtMs < movedAtMs);
      const after = answers.filter(({ sentAtMs }) => sentAtMs > settledAtMs);
      const canaryAfterMove = answers.filter(
        ({ sentAtMs, servedBy }) => sentAtMs > movedAtMs && servedBy === "ranker:42",
      );
      const lastCanaryMs =
        canaryAfterMove.length === 0 ? 0 : Math.max(...canaryAfterMove.map((a) => a.sentAtMs - movedAtMs));
      return {
        checks: [
          checkEqual("rollback: Envoy acknowledged the new routes", ackMs !== undefined, true),
          checkEqual("rollback: calls that failed", split.failed, 0),
          checkAtLeast(
            "rollback: calls of ranker:42 before the move",
            countSplit(before).byVersion.get("ranker:42") ?? 0,
            1,
          ),
          checkAtLeast("rollback: calls after the move had settled", after.length, 1),
          checkEqual("rollback: of them served by ranker:42", countSplit(after).byVersion.get("ranker:42") ?? 0, 0),
        ],
        lines: [
          `${answers.length} calls, failed ${split.failed}${split.firstFailure === undefined ? "" : ` (${split.firstFailure})`}; ` +
            `acknowledged by Envoy after ${ackMs?.toFixed(0)} ms, last call sent to v42 ${lastCanaryMs.toFixed(0)} ms after the write`,
        ],
      };
    } finally {
      await load.stop();
    }
  },
};

async function takeCanaryOut({ mesh }: Stage): Promise<{ movedAtMs: number; ackMs: number | undefined }> {
  const { alias, revision } = await mesh.admin.getAlias({ model: "ranker", alias: "prod" });
  const routes = await ackedRoutes(mesh.admin);
  const movedAtMs = performance.now();
  await mesh.admin.setAlias({
    alias: { ...alias, model: "ranker", alias: "prod", split: [{ version: 41n, weight: 100 }] },
    // Written only if nobody else has written meanwhile.
    expectedRevision: revision,
  });
  const ackMs = await waitRoutesAcked(mesh.admin, routes, ACK_TIMEOUT_MS);
  return { movedAtMs, ackMs: ackMs === undefined ? undefined : performance.now() - movedAtMs };
}
