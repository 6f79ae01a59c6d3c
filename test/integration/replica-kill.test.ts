import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startClosedLoop } from "../support/closed-loop.js";
import { eventually } from "../support/eventually.js";
import { startTestMesh, type TestMesh } from "../support/mesh.js";
import { rankerRows } from "../support/ranker.js";

const CLIENTS = 8;

describe("killing one of two batchers of v41 under load", () => {
  let mesh: TestMesh;
  beforeAll(async () => {
    mesh = await startTestMesh("replica-kill", { replicas: ["ranker:41", "ranker:41"] });
  });
  afterAll(() => mesh?.stop());

  it("takes its endpoint out; each client fails at most once, and only with unavailable", async () => {
    const rest = mesh.rest();
    const rows = rankerRows();
    const load = startClosedLoop(CLIENTS, async () => {
      const answer = await rest.post("/v1/models/ranker:predict", { instances: [rows.next()] });
      return { status: answer.status, reason: answer.headers["x-servemesh-reason"], text: answer.body.toString() };
    });
    await eventually("a few hundred answers", () => (load.calls.length > 300 ? true : undefined), {
      timeoutMs: 60_000,
    });
    const killedMs = performance.now();
    await mesh.mesh.replicas[0]?.batcher.kill();
    const goneMs = await eventually(
      "the endpoint of the dead batcher is out of the registry",
      async () => ((await mesh.mesh.admin.getStatus()).replicas.length === 1 ? performance.now() : undefined),
      { timeoutMs: 10_000 },
    );
    await mesh.settled();
    const outMs = performance.now();
    await eventually("a second of load without it", () => (performance.now() > outMs + 1000 ? true : undefined), {
      timeoutMs: 10_000,
    });
    const calls = await load.stop();
    rest.close();

    const failed = calls.filter((call) => call.error !== undefined || call.answer?.status !== 200);
    expect(failed.filter((call) => call.error !== undefined)).toEqual([]);
    expect(new Set(failed.map((call) => `${call.answer?.status} ${call.answer?.reason}`))).toEqual(
      new Set(failed.length > 0 ? ["503 unavailable"] : []),
    );
    for (let client = 0; client < CLIENTS; client++) {
      expect(failed.filter((call) => call.client === client).length).toBeLessThanOrEqual(1);
    }
    expect(failed.filter((call) => call.startedMs > outMs)).toEqual([]);
    expect(calls.filter((call) => call.startedMs > outMs).length).toBeGreaterThan(0);
    console.log(
      `batcher killed under load: ${calls.length} calls, ${failed.length} failed (${CLIENTS} clients); ` +
        `endpoint out of the registry after ${(goneMs - killedMs).toFixed(0)} ms, out of Envoy after ${(outMs - killedMs).toFixed(0)} ms`,
    );
  });
});
