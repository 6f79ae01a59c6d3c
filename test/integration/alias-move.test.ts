import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startClosedLoop } from "../support/closed-loop.js";
import { eventually } from "../support/eventually.js";
import { startTestMesh, type TestMesh } from "../support/mesh.js";
import { rankerRows } from "../support/ranker.js";

describe("moving ranker@prod from 95/5 to 100/0 under load", () => {
  let mesh: TestMesh;
  beforeAll(async () => {
    mesh = await startTestMesh("alias-move", { replicas: ["ranker:41", "ranker:42"], split: { 41: 95, 42: 5 } });
  });
  afterAll(() => mesh?.stop());

  it("fails no request, and v42 is gone from the answers that start after Envoy has the new routes", async () => {
    const rest = mesh.rest();
    const rows = rankerRows();
    const load = startClosedLoop(8, async () => {
      const answer = await rest.post("/v1/models/ranker:predict", { instances: [rows.next()] });
      return { status: answer.status, servedBy: String(answer.headers["x-servemesh-served-by"]), text: answer.body };
    });
    await eventually(
      "an answer of each version",
      () => {
        const seen = new Set(load.calls.map((call) => call.answer?.servedBy));
        return seen.has("ranker:41") && seen.has("ranker:42") ? true : undefined;
      },
      { timeoutMs: 60_000 },
    );
    const { askedMs, ackedMs } = await mesh.moveSplit({ 41: 100, 42: 0 });
    await eventually(
      "two seconds of load on the new split",
      () => (performance.now() > ackedMs + 2000 ? true : undefined),
      {
        timeoutMs: 10_000,
      },
    );
    const calls = await load.stop();
    rest.close();

    const failed = calls.filter((call) => call.error !== undefined || call.answer?.status !== 200);
    expect(failed.map((call) => call.error?.message ?? String(call.answer?.text))).toEqual([]);
    // One second of grace on a noisy machine; the time itself is printed, never asserted.
    const late = calls.filter((call) => call.startedMs > ackedMs + 1000);
    expect(late.length).toBeGreaterThan(0);
    expect(late.filter((call) => call.answer?.servedBy !== "ranker:41")).toEqual([]);
    const lastOld = Math.max(
      ...calls.filter((call) => call.answer?.servedBy === "ranker:42").map((call) => call.startedMs),
    );
    console.log(
      `alias moved under load: ${calls.length} calls, 0 failed; ACK after ${(ackedMs - askedMs).toFixed(1)} ms, ` +
        `last call answered by v42 started ${(lastOld - askedMs).toFixed(1)} ms after the move was asked for`,
    );
  });
});
