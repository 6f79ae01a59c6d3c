import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../platform/clock.js";
import { CLUSTER_TYPE, ENDPOINT_TYPE, ROUTE_TYPE } from "../snapshot/resource-types.js";
import {
  CrowdConnection,
  type CrowdStream,
  EDS_DELTA_PATH,
  listen,
  until,
  WITHOUT_LIMIT,
} from "./stream-crowd-fixture.js";
import { World } from "./world-fixture.js";
import { XdsServer } from "./xds-server.js";

/** Faults that show only with very many streams; those that come and go: fault-churn.test.ts. */

const SETTLE_MS = 30_000;
/** For a machine that does much else; nothing here is about time. */
const LIMIT = { timeout: 120_000 };
const QUIET = { info: () => undefined, warn: () => undefined, isLevelEnabled: () => false };

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

async function serve() {
  const xds = new XdsServer({ clock: systemClock, logger: QUIET, admission: WITHOUT_LIMIT });
  const { port, close } = await listen(xds);
  cleanUps.push(close);
  const connect = (): CrowdConnection => {
    const connection = new CrowdConnection(port);
    cleanUps.push(() => connection.close());
    return connection;
  };
  return { xds, connect };
}

const numbered = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${prefix}-${i}`);

it("rule 5: a connection carries one stream for the endpoints of each cluster", LIMIT, async () => {
  const { xds, connect } = await serve();
  const names = numbered("c", 1_000);
  xds.setSnapshot(new World().set(ENDPOINT_TYPE, names, "v1").snapshot());
  const connection = connect();
  const streams = names.map((name) => {
    const stream = connection.open("delta", "envoy-1", EDS_DELTA_PATH);
    stream.subscribe(ENDPOINT_TYPE, [name]);
    return stream;
  });
  await until(() => streams.every(({ received }) => received.length > 0), "each stream is answered");
  expect(streams.map(({ resources }) => resources)).toEqual(names.map((name) => [`${name}@v1`]));
});

describe.each(["delta", "sotw"] as const)("many clients by %s", (protocol) => {
  it(
    "fault 21 (jcp#89): a change of one cluster's endpoints is one resource on each stream, and no other type",
    LIMIT,
    async () => {
      const { xds, connect } = await serve();
      const names = numbered("c", 800);
      const world = new World().set(CLUSTER_TYPE, names, "v1").set(ENDPOINT_TYPE, names, "v1");
      xds.setSnapshot(world.snapshot());
      const connection = connect();
      const streams = numbered("envoy", 100).map((nodeId) => connection.open(protocol, nodeId));
      for (const stream of streams) {
        stream.subscribe(CLUSTER_TYPE);
        stream.subscribe(ENDPOINT_TYPE, names);
      }
      await until(() => streams.every(({ resources }) => resources.length >= 2 * names.length), "all have all");
      expect(await xds.whenSettled(SETTLE_MS)).toEqual({ settled: true, unsettled: [] });
      for (const { received } of streams) received.length = 0;
      xds.setSnapshot(world.set(ENDPOINT_TYPE, ["c-7"], "v2").snapshot());
      expect(await xds.whenSettled(SETTLE_MS)).toEqual({ settled: true, unsettled: [] });
      for (const { received } of streams) {
        expect(received.map(({ typeUrl, resources }) => ({ typeUrl, resources }))).toEqual([
          { typeUrl: ENDPOINT_TYPE, resources: ["c-7@v2"] },
        ]);
      }
    },
  );

  it(
    "fault 28 (grpc-node#2117): 1,000 streams that come back are answered every name, new ones too",
    LIMIT,
    async () => {
      const names = numbered("c", 20);
      const world = new World().set(ENDPOINT_TYPE, names, "v1").set(ROUTE_TYPE, names, "v1");
      const servers = [await serve(), await serve()];
      let held: CrowdStream[] = [];
      for (const [turn, { xds, connect }] of servers.entries()) {
        xds.setSnapshot(world.snapshot());
        const connections = Array.from({ length: 10 }, connect);
        const before = held;
        held = connections.flatMap((connection, at) =>
          numbered("client", 100).map((id) => connection.open(protocol, `${at}-${id}`)),
        );
        for (const [index, stream] of held.entries()) {
          const first = index % names.length;
          // The second time each asks for one name more than the first.
          const wanted = turn === 0 ? [`c-${first}`] : [`c-${first}`, `c-${(first + 1) % names.length}`];
          for (const type of [ENDPOINT_TYPE, ROUTE_TYPE]) stream.subscribe(type, wanted, before[index]?.lastOf(type));
        }
        await until(() => held.every(({ resources }) => resources.length >= 2 * (turn + 1)), "each name is answered");
        for (const [index, { received }] of held.entries()) {
          const first = index % names.length;
          const wanted = [`c-${first}@v1`, `c-${(first + 1) % names.length}@v1`].slice(0, turn + 1).sort();
          for (const type of [ENDPOINT_TYPE, ROUTE_TYPE]) {
            const seen = received.filter(({ typeUrl }) => typeUrl === type).flatMap(({ resources }) => resources);
            expect(seen.sort()).toEqual(wanted);
          }
        }
        xds.close();
        await until(() => held.every(({ hasEnded }) => hasEnded), "all streams are ended");
      }
    },
  );
});
