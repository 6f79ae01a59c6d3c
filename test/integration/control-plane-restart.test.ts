import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startClosedLoop } from "../support/closed-loop.js";
import { eventually } from "../support/eventually.js";
import { startTestMesh, type TestMesh } from "../support/mesh.js";
import { rankerRows } from "../support/ranker.js";

describe("killing and restarting the control plane under load", () => {
  let mesh: TestMesh;
  beforeAll(async () => {
    mesh = await startTestMesh("control-plane-restart", { replicas: ["ranker:41", "ranker:42"] });
    await mesh.moveSplit({ 41: 50, 42: 50 });
  });
  afterAll(() => mesh?.stop());

  it("fails no request; Envoy and batchers come back by themselves, and the next change arrives", async () => {
    const rest = mesh.rest();
    const rows = rankerRows();
    const load = startClosedLoop(4, async () => {
      const answer = await rest.post("/v1/models/ranker:predict", { instances: [rows.next()] });
      return { status: answer.status, servedBy: String(answer.headers["x-servemesh-served-by"]), text: answer.body };
    });
    await eventually("a hundred answers", () => (load.calls.length > 100 ? true : undefined), { timeoutMs: 30_000 });
    await mesh.mesh.controlPlane.kill();
    const before = load.calls.length;
    await sleep(2000);
    expect(load.calls.length).toBeGreaterThan(before);

    const restartMs = performance.now();
    await mesh.mesh.controlPlane.start();
    await eventually(
      "both replicas and the gateway are connected again",
      async () => {
        const status = await mesh.mesh.admin.getStatus();
        return status.replicas.length === 2 && status.nodes.length === 1 ? true : undefined;
      },
      { timeoutMs: 30_000 },
    );
    const backMs = performance.now();
    const { ackedMs } = await mesh.moveSplit({ 41: 0, 42: 100 });
    await sleep(1500);
    const calls = await load.stop();
    rest.close();

    const failed = calls.filter((call) => call.error !== undefined || call.answer?.status !== 200);
    expect(failed.map((call) => call.error?.message ?? String(call.answer?.text))).toEqual([]);
    const late = calls.filter((call) => call.startedMs > ackedMs + 1000);
    expect(late.length).toBeGreaterThan(0);
    expect(late.filter((call) => call.answer?.servedBy !== "ranker:42")).toEqual([]);
    console.log(
      `control plane killed under load: ${calls.length} calls, 0 failed; all connected ${(backMs - restartMs).toFixed(0)} ms after the restart`,
    );
  });
});
