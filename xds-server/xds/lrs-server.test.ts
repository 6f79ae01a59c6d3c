import { type ClientDuplexStream, credentials, Server, ServerCredentials } from "@grpc/grpc-js";
import {
  LoadReportingServiceClient,
  LoadStatsRequest,
  type LoadStatsResponse,
} from "@servemesh/proto/gen/envoy/envoy/service/load_stats/v3/lrs.js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { LoadReports } from "../telemetry/load-reports.js";
import { LrsServer } from "./lrs-server.js";

/** An Envoy's load report stream by hand. */
class Reporter {
  readonly answers: LoadStatsResponse[] = [];
  readonly ended: Promise<string>;
  readonly #call: ClientDuplexStream<LoadStatsRequest, LoadStatsResponse>;

  constructor(client: LoadReportingServiceClient) {
    this.#call = client.streamLoadStats();
    this.#call.on("data", (answer: LoadStatsResponse) => this.answers.push(answer));
    this.ended = new Promise((resolve) => {
      this.#call.on("error", (error) => resolve(error.message));
      this.#call.on("end", () => resolve("end"));
    });
  }

  send(message: object): void {
    this.#call.write(LoadStatsRequest.fromPartial(message));
  }

  async begin(id: string): Promise<LoadStatsResponse> {
    this.send({ node: { id } });
    await expect.poll(() => this.answers.length).toBe(1);
    return this.answers[0] as LoadStatsResponse;
  }

  end(): void {
    this.#call.end();
  }
}

const served = (issued: number): object => ({
  clusterName: "ranker/41",
  upstreamLocalityStats: [
    {
      locality: { region: "eu", zone: "a", subZone: "rack-1" },
      totalIssuedRequests: issued,
      totalSuccessfulRequests: issued - 2,
      totalErrorRequests: 1,
      totalRequestsInProgress: 1,
    },
  ],
});

let clock: ManualClock;
let loads: LoadReports;
let lrs: LrsServer;
let server: Server;
let client: LoadReportingServiceClient;

beforeEach(async () => {
  clock = new ManualClock();
  loads = new LoadReports();
  const logger = { info: () => undefined, warn: () => undefined };
  lrs = new LrsServer({ clock, logger, sink: loads, intervalMs: 2_500, graceMs: 10_000, leavingMax: 2 });
  server = new Server();
  lrs.addTo(server);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  client = new LoadReportingServiceClient(`127.0.0.1:${port}`, credentials.createInsecure());
});

afterEach(() => {
  client.close();
  server.forceShutdown();
});

const issuedOf = (): number | undefined => loads.clusterSums().get("ranker/41")?.issued;

describe("LrsServer", () => {
  it("asks for all clusters at its interval, once per stream", async () => {
    const envoy = new Reporter(client);
    expect(await envoy.begin("gateway-1")).toEqual({
      clusters: [],
      sendAllClusters: true,
      loadReportingInterval: { seconds: 2, nanos: 500_000_000 },
      reportEndpointGranularity: false,
    });
    envoy.send({ node: { id: "gateway-1" }, clusterStats: [served(10)] });
    await expect.poll(issuedOf).toBe(10);
    expect(envoy.answers).toHaveLength(1);
    expect(lrs.streamCount).toBe(1);
  });

  it("adds up reports by node, cluster and locality, whether they name the node again or not", async () => {
    const envoy = new Reporter(client);
    await envoy.begin("gateway-1");
    envoy.send({ node: { id: "somebody-else" }, clusterStats: [served(10), { clusterName: "idle" }] });
    envoy.send({ clusterStats: [served(5)] });
    await expect.poll(issuedOf).toBe(15);
    expect(loads.loads()).toEqual([
      {
        nodeId: "gateway-1",
        cluster: "ranker/41",
        locality: "eu/a/rack-1",
        last: { locality: "eu/a/rack-1", issued: 5, success: 3, error: 1, inProgress: 1 },
        lastAtMs: clock.nowMs(),
        sum: { issued: 15, success: 11, error: 2, inProgress: 1, unfinished: 1 },
      },
    ]);
    expect([...loads.clusterSums().keys()]).toEqual(["ranker/41", "idle"]);
  });

  it("refuses a stream without a node, and one that sends rubbish, and nobody else", async () => {
    const good = new Reporter(client);
    await good.begin("gateway-1");
    const nameless = new Reporter(client);
    nameless.send({ clusterStats: [served(10)] });
    expect(await nameless.ended).toContain("node.id is missing");
    const tooLong = new Reporter(client);
    tooLong.send({ node: { id: "x".repeat(257) } });
    expect(await tooLong.ended).toContain("longer than 256");
    const tooMany = new Reporter(client);
    await tooMany.begin("gateway-2");
    tooMany.send({ clusterStats: [{ upstreamLocalityStats: [{ totalIssuedRequests: 2 ** 60 }] }] });
    expect(await tooMany.ended).toMatch(/INVALID_ARGUMENT/);
    good.send({ clusterStats: [served(3)] });
    await expect.poll(issuedOf).toBe(3);
    expect(lrs.streamCount).toBe(1);
  });

  it("forgets a node when its last stream has been gone for the grace", async () => {
    const first = new Reporter(client);
    await first.begin("gateway-1");
    first.send({ clusterStats: [served(10)] });
    const second = new Reporter(client);
    await second.begin("gateway-1");
    await expect.poll(issuedOf).toBe(10);
    first.end();
    await first.ended;
    await expect.poll(() => lrs.streamCount).toBe(1);
    expect(clock.pendingTimers).toBe(0);
    second.end();
    await second.ended;
    await expect.poll(() => lrs.streamCount).toBe(0);
    clock.advance(9_999);
    expect(issuedOf()).toBe(10);
    clock.advance(1);
    expect(issuedOf()).toBeUndefined();
  });

  it("goes on counting for a node that comes back in time", async () => {
    const first = new Reporter(client);
    await first.begin("gateway-1");
    first.send({ clusterStats: [served(10)] });
    await expect.poll(issuedOf).toBe(10);
    first.end();
    await first.ended;
    await expect.poll(() => clock.pendingTimers).toBe(1);
    const again = new Reporter(client);
    await again.begin("gateway-1");
    clock.advance(60_000);
    again.send({ clusterStats: [served(5)] });
    await expect.poll(issuedOf).toBe(15);
  });

  it("remembers only so many nodes that left, so that made-up ids cannot fill the memory", async () => {
    for (const id of ["gateway-1", "gateway-2", "gateway-3"]) {
      const envoy = new Reporter(client);
      await envoy.begin(id);
      envoy.send({ clusterStats: [served(10)] });
      await expect.poll(() => loads.loads().some(({ nodeId }) => nodeId === id)).toBe(true);
      envoy.end();
      await envoy.ended;
      await expect.poll(() => lrs.streamCount).toBe(0);
    }
    expect(loads.loads().map(({ nodeId }) => nodeId)).toEqual(["gateway-2", "gateway-3"]);
    expect(clock.pendingTimers).toBe(2);
  });

  it("ends streams on close and leaves no timer", async () => {
    const left = new Reporter(client);
    await left.begin("gateway-1");
    left.end();
    await left.ended;
    await expect.poll(() => clock.pendingTimers).toBe(1);
    const open = new Reporter(client);
    await open.begin("gateway-2");
    lrs.close();
    expect(await open.ended).toBe("end");
    expect([lrs.streamCount, clock.pendingTimers]).toEqual([0, 0]);
  });
});
