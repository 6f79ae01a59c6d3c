import { type ClientDuplexStream, credentials, Server, ServerCredentials } from "@grpc/grpc-js";
import { AggregatedDiscoveryServiceClient } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/ads.js";
import {
  type DeepPartial,
  DeltaDiscoveryRequest,
  type DeltaDiscoveryResponse,
} from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { afterEach, describe, expect, it } from "vitest";
import { planMesh } from "../plan/plan.js";
import { rankerFixture, type StateFixture, stateOf } from "../plan/state-fixture.js";
import { systemClock } from "../platform/clock.js";
import { CLUSTER_TYPE, ROUTE_TYPE } from "../snapshot/resource-types.js";
import { buildSnapshot, type Snapshot } from "../snapshot/snapshot.js";
import { translate } from "../translate/translate-fixture.js";
import { XdsServer } from "./xds-server.js";

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

function snapshotOf(fixture: StateFixture): Snapshot {
  return buildSnapshot(
    translate(planMesh(stateOf(fixture)), {
      gate: undefined,
      transcoderDescriptor: Buffer.from("descriptors"),
    }),
  );
}

interface Served {
  readonly xds: XdsServer;
  readonly client: AggregatedDiscoveryServiceClient;
}

async function serve(): Promise<Served> {
  const xds = new XdsServer({ clock: systemClock, logger: { info: () => undefined, warn: () => undefined } });
  const server = new Server();
  xds.addTo(server);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  const client = new AggregatedDiscoveryServiceClient(`127.0.0.1:${port}`, credentials.createInsecure());
  cleanUps.push(
    () => server.forceShutdown(),
    () => client.close(),
    () => xds.close(),
  );
  return { xds, client };
}

/** One stream of a pretended Envoy: what it got, and how the stream ended. */
class Stream {
  readonly responses: DeltaDiscoveryResponse[] = [];
  readonly ended: Promise<string>;
  readonly #call: ClientDuplexStream<DeltaDiscoveryRequest, DeltaDiscoveryResponse>;

  constructor(client: AggregatedDiscoveryServiceClient) {
    this.#call = client.deltaAggregatedResources();
    this.#call.on("data", (response: DeltaDiscoveryResponse) => this.responses.push(response));
    this.ended = new Promise((resolve) => {
      this.#call.on("error", (error) => resolve(error.message));
      this.#call.on("end", () => resolve("end"));
    });
  }

  send(request: DeepPartial<DeltaDiscoveryRequest>): void {
    this.#call.write(DeltaDiscoveryRequest.fromPartial(request as object));
  }

  ask(typeUrl: string, names: string[] = []): void {
    this.send({ typeUrl, resourceNamesSubscribe: names, node: { id: "envoy-1" } });
  }

  /** Answers the newest response of a type. */
  answer(typeUrl: string, refusal?: string): void {
    const responseNonce = this.responses.findLast((response) => response.typeUrl === typeUrl)?.nonce ?? "none";
    const errorDetail = refusal === undefined ? undefined : { code: 13, message: refusal };
    this.send({ typeUrl, responseNonce, errorDetail });
  }

  async received(count: number): Promise<DeltaDiscoveryResponse> {
    await expect.poll(() => this.responses.length, { timeout: 2_000, interval: 2 }).toBeGreaterThanOrEqual(count);
    const response = this.responses[count - 1];
    if (response === undefined) throw new Error("no response");
    return response;
  }
}

const ranker = rankerFixture();
const other: StateFixture = { ...ranker, ready: { ...ranker.ready, "ranker:42": [] } };
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe("XdsServer", () => {
  it("leaves streams waiting until the first snapshot", async () => {
    const { xds, client } = await serve();
    const stream = new Stream(client);
    stream.ask(CLUSTER_TYPE);
    await pause(30);
    expect(stream.responses).toEqual([]);
    xds.setSnapshot(snapshotOf(ranker));
    const response = await stream.received(1);
    expect(response.resources.map(({ name }) => name)).toContain("_server");
    expect(response.controlPlane?.identifier).toBe("servemesh");
  });

  it("tells who holds what, and waits until all took it", async () => {
    const { xds, client } = await serve();
    const snapshot = snapshotOf(ranker);
    xds.setSnapshot(snapshot);
    const stream = new Stream(client);
    stream.ask(CLUSTER_TYPE);
    await stream.received(1);
    expect((await xds.whenSettled(20)).unsettled).toEqual([`envoy-1 ${CLUSTER_TYPE}`]);
    const settled = xds.whenSettled(2_000);
    stream.answer(CLUSTER_TYPE);
    expect(await settled).toEqual({ settled: true, unsettled: [] });
    const version = snapshot.typeVersions[CLUSTER_TYPE];
    expect(xds.status()).toEqual([
      { nodeId: "envoy-1", types: [{ typeUrl: CLUSTER_TYPE, sentVersion: version, ackedVersion: version, nack: "" }] },
    ]);
  });

  it("keeps an Envoy's words on a refusal and then is silent", async () => {
    const { xds, client } = await serve();
    xds.setSnapshot(snapshotOf(ranker));
    const stream = new Stream(client);
    stream.ask(ROUTE_TYPE, ["routes/ranker"]);
    await stream.received(1);
    stream.answer(ROUTE_TYPE, "Weights: must be greater than 0");
    await expect.poll(() => xds.findings().length).toBe(1);
    expect(xds.findings()[0]).toMatchObject({ severity: "error", subject: "routes/ranker" });
    expect(xds.status()[0]?.types[0]?.nack).toBe("routes/ranker: Weights: must be greater than 0");
    await pause(50);
    xds.setSnapshot(snapshotOf(ranker));
    await pause(50);
    expect(stream.responses).toHaveLength(1);
    xds.setSnapshot(snapshotOf(other));
    await stream.received(2);
    stream.answer(ROUTE_TYPE);
    await expect.poll(() => xds.findings()).toEqual([]);
  });

  it("offers a restarted Envoy again what its predecessor refused", async () => {
    const { xds, client } = await serve();
    xds.setSnapshot(snapshotOf(ranker));
    const first = new Stream(client);
    first.ask(ROUTE_TYPE, ["routes/ranker"]);
    await first.received(1);
    first.answer(ROUTE_TYPE, "port taken");
    await expect.poll(() => xds.findings().length).toBe(1);
    const second = new Stream(client);
    second.ask(ROUTE_TYPE, ["routes/ranker"]);
    expect((await second.received(1)).resources).toHaveLength(1);
  });

  it("ends a stream whose first request names no node, and one that sends rubbish", async () => {
    const { xds, client } = await serve();
    const stream = new Stream(client);
    stream.send({ typeUrl: CLUSTER_TYPE });
    expect(await stream.ended).toContain("node.id is missing");
    expect(xds.status()).toEqual([]);
  });

  it("ends streams on close and forgets them when they end", async () => {
    const { xds, client } = await serve();
    xds.setSnapshot(snapshotOf(ranker));
    const stream = new Stream(client);
    stream.ask(CLUSTER_TYPE);
    await stream.received(1);
    xds.close();
    expect(await stream.ended).toBe("end");
    expect(xds.status()).toEqual([]);
    expect(await xds.whenSettled(10)).toEqual({ settled: true, unsettled: [] });
  });
});
