import { DeltaDiscoveryResponse } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../platform/clock.js";
import { CLUSTER_TYPE, ENDPOINT_TYPE, ROUTE_TYPE } from "../snapshot/resource-types.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import { Caller, connect, WatchedDoor } from "./connection-fixture.js";
import type { DiscoveryCall } from "./discovery-services.js";
import { Envoy } from "./hand-driven-envoy-fixture.js";
import { until } from "./stream-crowd-fixture.js";
import { World } from "./world-fixture.js";

/** Clients that read slower than the mesh changes. */

const CHANGES = 300;
const LARGE = "x".repeat(100_000);
/** Messages that grpc-js queues before it says that a stream is full. */
const QUEUE = 16;
const SETTLE_MS = 30_000;
/** For a machine that does much else; nothing here is about time. */
const LIMIT = { timeout: 120_000 };

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

const largeWorld = (revision: number): Snapshot =>
  new World().set(ROUTE_TYPE, ["r"], `v${revision}-${LARGE}`).snapshot();

/** Lets the process read, write and run timers once. */
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));

async function serve() {
  const door = new WatchedDoor(systemClock, {});
  const port = await door.listen();
  cleanUps.push(() => door.close());
  door.xds.setSnapshot(largeWorld(0));
  /** A stream on a connection of its own that holds the first state, and the server's side of it. */
  const open = async (nodeId: string): Promise<{ caller: Caller; call: DiscoveryCall }> => {
    const client = connect(port);
    cleanUps.push(() => client.close());
    const caller = new Caller(client, nodeId, ROUTE_TYPE, ["r"]);
    await until(() => caller.resources.length === 1, "it has the first state");
    const call = door.calls.at(-1);
    if (call === undefined) throw new Error("no stream came");
    return { caller, call };
  };
  return { xds: door.xds, open };
}

/** Nonces of what is written to a stream from now on. */
function watchWrites(call: DiscoveryCall, onWrite: (nonce: string) => void = () => undefined): string[] {
  const nonces: string[] = [];
  const write = call.write.bind(call) as (bytes: Buffer) => boolean;
  call.write = (bytes: Buffer): boolean => {
    const { nonce } = DeltaDiscoveryResponse.decode(bytes);
    nonces.push(nonce);
    const takesMore = write(bytes);
    onWrite(nonce);
    return takesMore;
  };
  return nonces;
}

const revisionsOf = ({ resources }: Caller): string[] => resources.map((text) => /@(v\d+)-/.exec(text)?.[1] ?? text);

describe("a client that stops reading", () => {
  it("rule 45: is written one response more, and the others get every state's end", LIMIT, async () => {
    const { xds, open } = await serve();
    const stopped = await open("stopped");
    const quick = await open("quick");
    expect((await xds.whenSettled(SETTLE_MS)).settled).toBe(true);
    stopped.caller.stopReading();
    const writes = watchWrites(stopped.call);
    for (let revision = 1; revision <= CHANGES; revision += 1) {
      xds.setSnapshot(largeWorld(revision));
      await turn();
    }
    await until(() => revisionsOf(quick.caller).at(-1) === `v${CHANGES}`, "the other one has the last state");
    expect(writes).toHaveLength(1);
    stopped.caller.readOn();
    await until(() => revisionsOf(stopped.caller).at(-1) === `v${CHANGES}`, "it has the last state too");
    expect(revisionsOf(stopped.caller)).toEqual(["v0", "v1", `v${CHANGES}`]);
    expect(await xds.whenSettled(SETTLE_MS)).toEqual({ settled: true, unsettled: [] });
  });

  it("is written no more than its queue takes, although it acknowledges what it does not read", LIMIT, async () => {
    const { xds, open } = await serve();
    const stopped = await open("stopped");
    expect((await xds.whenSettled(SETTLE_MS)).settled).toBe(true);
    stopped.caller.accepts = false;
    stopped.caller.stopReading();
    const acknowledge = (responseNonce: string): void => stopped.caller.send({ typeUrl: ROUTE_TYPE, responseNonce });
    const writes = watchWrites(stopped.call, acknowledge);
    let revision = 0;
    for (; revision < CHANGES || writes.length < QUEUE; revision += 1) {
      xds.setSnapshot(largeWorld(revision + 1));
      await turn();
    }
    expect(stopped.call.writableNeedDrain).toBe(true);
    expect(stopped.call.writableLength).toBeLessThanOrEqual(QUEUE);
    // A queue at each end, and what is on the way.
    expect(writes.length).toBeLessThan(3 * QUEUE);
    const sentCount = writes.length;
    stopped.caller.readOn();
    await until(() => revisionsOf(stopped.caller).at(-1) === `v${revision}`, "it has the last state");
    expect(writes).toHaveLength(sentCount + 1);
    expect(await xds.whenSettled(SETTLE_MS)).toEqual({ settled: true, unsettled: [] });
  });
});

describe("a session whose stream is full", () => {
  const world = (revision: string): Snapshot =>
    new World()
      .set(CLUSTER_TYPE, ["c"], revision)
      .set(ENDPOINT_TYPE, ["e"], revision)
      .set(ROUTE_TYPE, ["r"], revision)
      .snapshot();

  it("sends nothing, and then what the present state is by that time", () => {
    const envoy = new Envoy();
    envoy.session.setTarget(world("v1"), 0);
    envoy.ask(CLUSTER_TYPE);
    envoy.ask(ENDPOINT_TYPE, ["e"]);
    envoy.ask(ROUTE_TYPE, ["r"]);
    expect(envoy.acceptAll()).toHaveLength(3);
    envoy.room = 0;
    for (const revision of ["v2", "v3", "v4"]) envoy.session.setTarget(world(revision), 0);
    envoy.ask(ROUTE_TYPE, ["other"]);
    envoy.at(60_000);
    expect(envoy.take()).toEqual([]);
    expect(envoy.session.unsettledTypes()).toEqual([CLUSTER_TYPE, ENDPOINT_TYPE, ROUTE_TYPE]);
    envoy.room = Number.POSITIVE_INFINITY;
    envoy.session.resume(60_000);
    const versions = envoy.wire.map(({ contents }) => contents.find(({ name }) => name !== "other")?.version);
    const { byType } = world("v4");
    expect(versions).toEqual([
      byType[CLUSTER_TYPE].get("c")?.version,
      byType[ENDPOINT_TYPE].get("e")?.version,
      byType[ROUTE_TYPE].get("r")?.version,
    ]);
    expect(envoy.acceptAll()).toEqual(["CDS +c", "EDS +e", "RDS -other +r"]);
    expect(envoy.session.unsettledTypes()).toEqual([]);
  });

  it("stops in the middle of a change, and goes on with the types that are left, in order", () => {
    const envoy = new Envoy();
    envoy.session.setTarget(world("v1"), 0);
    envoy.ask(CLUSTER_TYPE);
    envoy.ask(ENDPOINT_TYPE, ["e"]);
    envoy.ask(ROUTE_TYPE, ["r"]);
    envoy.acceptAll();
    envoy.room = 1;
    envoy.session.setTarget(world("v2"), 0);
    expect(envoy.take()).toEqual(["CDS +c"]);
    envoy.room = 1;
    envoy.session.resume(0);
    expect(envoy.take()).toEqual(["EDS +e"]);
    envoy.room = Number.POSITIVE_INFINITY;
    envoy.session.resume(0);
    expect(envoy.take()).toEqual(["RDS +r"]);
  });
});
