import type { Server } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { planMesh } from "../plan/plan.js";
import { rankerOn, stateOf } from "../plan/state-fixture.js";
import { systemClock } from "../platform/clock.js";
import { buildSnapshot } from "../snapshot/snapshot.js";
import { LoadReports, type LoadSum } from "../telemetry/load-reports.js";
import { withOpenGate } from "../translate/open-gate-fixture.js";
import { translate } from "../translate/translate-fixture.js";
import { callRest } from "./doors-fixture.js";
import { envoyBinary, type RunningEnvoy, startEnvoy } from "./envoy-fixture.js";
import { LrsServer } from "./lrs-server.js";
import { PATIENCE_MS, restDescriptor, TestMesh } from "./mesh-fixture.js";
import { XdsServer } from "./xds-server.js";

/** What a real Envoy reports of calls that were really made. The gate is left out: the client names the route itself. */
const binary = envoyBinary();
if (binary === undefined) console.info("skipped: no Envoy; run `npm run setup` or set ENVOY_BIN");

const WAITING = { timeout: PATIENCE_MS, interval: 50 };

describe.skipIf(binary === undefined)("load reports of a real Envoy", () => {
  const loads = new LoadReports();
  const logger = { info: () => undefined, warn: () => undefined };
  const lrs = new LrsServer({ clock: systemClock, logger, sink: loads, intervalMs: 200 });
  let mesh: TestMesh;
  let envoy: RunningEnvoy | undefined;

  /** ADS and load reports on one port, as in the control plane. */
  class AdsAndLoads extends XdsServer {
    override addTo(server: Server): void {
      super.addTo(server);
      lrs.addTo(server);
    }
  }

  beforeAll(async () => {
    mesh = await TestMesh.open((deps) => new AdsAndLoads(deps));
    const { ads, admin } = mesh.ports;
    envoy = startEnvoy({
      binary: binary ?? "",
      adsPort: ads,
      adminPort: admin,
      nodeId: "gateway-1",
      apiType: "DELTA_GRPC",
      reportsLoad: true,
    });
    const plan = planMesh(stateOf(rankerOn(mesh.servingPorts)));
    const settings = { gate: undefined, transcoderDescriptor: restDescriptor() };
    mesh.xds.setSnapshot(buildSnapshot(withOpenGate(translate(plan, settings))));
    await vi.waitFor(() => expect(mesh.xds.status()).toHaveLength(1), WAITING);
    expect(await mesh.settled()).toEqual({ settled: true, unsettled: [] });
    await vi.waitFor(() => call("ranker/41"), WAITING);
    // From here on every call is counted: Envoy has been told to report, and does.
    await vi.waitFor(() => expect(sumOf("model/ranker/42")).toBeDefined(), WAITING);
  });

  afterAll(async () => {
    lrs.close();
    await envoy?.stop();
    await mesh?.close();
  });

  const call = (route: string): Promise<{ status: number }> =>
    callRest(mesh.ports.http, { path: "/v2/models/ranker/infer", headers: { "x-test-route": route } });

  async function statuses(route: string, count: number): Promise<number[]> {
    const seen: number[] = [];
    for (let index = 0; index < count; index += 1) seen.push((await call(route)).status);
    return seen;
  }

  function sumOf(cluster: string): LoadSum | undefined {
    return loads.clusterSums().get(cluster);
  }

  function failedIn(...clusters: string[]): number {
    return clusters.reduce((sum, cluster) => sum + (sumOf(cluster)?.error ?? 0), 0);
  }

  /** Waits until a cluster's sums have grown so much. */
  async function expectGrowth(before: LoadSum | undefined, cluster: string, growth: object): Promise<void> {
    const grown = (): object => {
      const { issued = 0, success = 0, error = 0 } = sumOf(cluster) ?? {};
      return {
        issued: issued - (before?.issued ?? 0),
        success: success - (before?.success ?? 0),
        error: error - (before?.error ?? 0),
      };
    };
    await vi.waitFor(() => expect(grown()).toEqual(growth), WAITING);
  }

  it("counts served calls for the cluster that served them, and for no other", async () => {
    const [canary, lite] = [sumOf("model/ranker/42"), sumOf("model/ranker-lite/1")];
    expect(await statuses("ranker/42", 12)).toEqual(Array<number>(12).fill(200));
    await expectGrowth(canary, "model/ranker/42", { issued: 12, success: 12, error: 0 });
    await expectGrowth(lite, "model/ranker-lite/1", { issued: 0, success: 0, error: 0 });
    expect(sumOf("model/ranker/42")).toMatchObject({ inProgress: 0, unfinished: 0 });
  });

  it("counts as errors only answers after which Envoy tried another cluster", async () => {
    const [canary, lite] = [sumOf("model/ranker/42"), sumOf("model/ranker-lite/1")];
    const before = failedIn("model/ranker/41", "model/ranker/42");
    for (const name of ["stable", "stable2", "canary"] as const) mesh.batchers[name].behaviour = "overloaded";
    expect(await statuses("ranker/prod", 5)).toEqual(Array<number>(5).fill(200));
    await expectGrowth(lite, "model/ranker-lite/1", { issued: 5, success: 5, error: 0 });
    await vi.waitFor(() => expect(failedIn("model/ranker/41", "model/ranker/42") - before).toBe(5), WAITING);
    mesh.calm();
    // A refusal that goes to the caller is a success for Envoy: gRPC status 8 is no 5xx.
    const failed = failedIn("model/ranker/42") - (canary?.error ?? 0);
    mesh.batchers.canary.behaviour = "quota";
    expect(await statuses("ranker/42", 5)).toEqual(Array<number>(5).fill(429));
    await expectGrowth(canary, "model/ranker/42", { issued: 5 + failed, success: 5, error: failed });
    mesh.calm();
  });

  it("leaves calls that never got an answer to be seen as unfinished", async () => {
    const before = sumOf("model/ranker/42");
    mesh.batchers.canary.delayMs = 10_000;
    const gone = new AbortController();
    const ended = fetch(`http://127.0.0.1:${mesh.ports.http}/v2/models/ranker/infer`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-test-route": "ranker/42" },
      body: "{}",
      signal: gone.signal,
    }).then(
      () => "answered",
      () => "aborted",
    );
    await vi.waitFor(() => expect(sumOf("model/ranker/42")?.inProgress).toBe(1), WAITING);
    expect(sumOf("model/ranker/42")?.unfinished).toBe(before?.unfinished);
    gone.abort();
    expect(await ended).toBe("aborted");
    await vi.waitFor(() => {
      const { inProgress, unfinished = 0 } = sumOf("model/ranker/42") ?? {};
      expect([inProgress, unfinished - (before?.unfinished ?? 0)]).toEqual([0, 1]);
    }, WAITING);
    mesh.calm();
  });

  it("names every cluster, also those without a call", () => {
    expect([...loads.clusterSums().keys()]).toEqual(expect.arrayContaining(["_server", "model/ranker/43", "xds"]));
    expect(new Set(loads.loads().map(({ nodeId }) => nodeId))).toEqual(new Set(["gateway-1"]));
  });
});
