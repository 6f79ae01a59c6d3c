import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../platform/clock.js";
import { CLUSTER_TYPE, DELIVERY_ORDER, ENDPOINT_TYPE, ROUTE_TYPE } from "../snapshot/resource-types.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import { CrowdConnection, type CrowdStream, listen, until, WITHOUT_LIMIT } from "./stream-crowd-fixture.js";
import { World } from "./world-fixture.js";
import { XdsServer } from "./xds-server.js";

/** Storms of states and requests at once: nothing may wait for ever, and all must come out right at the end. */

const SETTLE_MS = 30_000;
/** For a machine that does much else; the storms end by count, not by time. */
const LIMIT = { timeout: 120_000 };
const NAMES = ["a", "b", "c", "d", "e"] as const;

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

async function serve(): Promise<{ xds: XdsServer; connection: CrowdConnection }> {
  const logger = { info: () => undefined, warn: () => undefined, isLevelEnabled: () => false };
  const xds = new XdsServer({ clock: systemClock, logger, admission: WITHOUT_LIMIT });
  const { port, close } = await listen(xds);
  const connection = new CrowdConnection(port);
  cleanUps.push(close, () => connection.close());
  return { xds, connection };
}

function everything(revision: string): Snapshot {
  const world = new World();
  for (const type of DELIVERY_ORDER) world.set(type, NAMES, revision);
  return world.snapshot();
}

/** Lets the process read, write and run timers once. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Revision that a stream was sent last of each `type name`. */
function latest({ received }: CrowdStream): Map<string, string> {
  const revisions = new Map<string, string>();
  for (const { typeUrl, resources } of received) {
    for (const resource of resources) {
      const [name = "", revision = ""] = resource.split("@");
      revisions.set(`${typeUrl} ${name}`, revision);
    }
  }
  return revisions;
}

describe.each(["delta", "sotw"] as const)("a storm by %s", (protocol) => {
  it(
    "fault 11 (gcp#503, gcp#875): many types on a stream, states and requests at once, do not lock up",
    LIMIT,
    async () => {
      const { xds, connection } = await serve();
      xds.setSnapshot(everything("v0"));
      const streams = Array.from({ length: 10 }, (_, index) => connection.open(protocol, `envoy-${index}`));
      // Six types that are served, and more that are not than any queue would be made for.
      const strangers = Array.from({ length: 30 }, (_, index) => `type.googleapis.com/unknown.Type${index}`);
      for (const stream of streams) {
        for (const type of [...strangers, ...DELIVERY_ORDER]) stream.subscribe(type, ["a"]);
      }
      for (let round = 1; round <= 150; round += 1) {
        xds.setSnapshot(everything(`v${round}`));
        for (const stream of streams) {
          const type = DELIVERY_ORDER[round % DELIVERY_ORDER.length] ?? CLUSTER_TYPE;
          stream.subscribe(type, NAMES.slice(0, 1 + (round % NAMES.length)), stream.lastOf(type));
        }
        if (round % 3 === 0) await turn();
      }
      for (const stream of streams) {
        for (const type of DELIVERY_ORDER) stream.subscribe(type, NAMES, stream.lastOf(type));
      }
      const wanted = DELIVERY_ORDER.flatMap((type) => NAMES.map((name) => [`${type} ${name}`, "v150"] as const)).sort();
      const hasAll = (stream: CrowdStream): boolean =>
        [...latest(stream).values()].filter((revision) => revision === "v150").length === wanted.length;
      await until(() => streams.every(hasAll), "each stream has the last state of everything");
      expect(await xds.whenSettled(SETTLE_MS)).toEqual({ settled: true, unsettled: [] });
      for (const stream of streams) {
        expect([...latest(stream)].sort()).toEqual(wanted);
        expect(stream.hasEnded).toBe(false);
      }
    },
  );

  it("rule 46: a request is answered while states come without a pause", LIMIT, async () => {
    const { xds, connection } = await serve();
    xds.setSnapshot(everything("v0"));
    const streams = Array.from({ length: 50 }, (_, index) => connection.open(protocol, `envoy-${index}`));
    for (const stream of streams) stream.subscribe(ENDPOINT_TYPE, ["a"]);
    await until(() => streams.every(({ received }) => received.length > 0), "all are connected");
    let isAnswered = false;
    const late = connection.open(protocol, "late");
    late.subscribe(ROUTE_TYPE, ["b"]);
    let count = 0;
    // It ends only with the answer, or fails for it.
    for (; !isAnswered && count < 20_000; count += 1) {
      xds.setSnapshot(everything(`v${count}`));
      await turn();
      isAnswered = late.received.length > 0;
    }
    expect(late.resources[0]).toMatch(/^b@v/);
    const last = `a@v${count - 1}`;
    await until(() => streams.every(({ resources }) => resources.at(-1) === last), "the last state is everywhere");
  });

  it("rule 46: a state is sent while requests come without a pause", LIMIT, async () => {
    const { xds, connection } = await serve();
    xds.setSnapshot(everything("v0"));
    const quiet = connection.open(protocol, "quiet");
    quiet.subscribe(ENDPOINT_TYPE, ["a"]);
    const busy = Array.from({ length: 20 }, (_, index) => connection.open(protocol, `busy-${index}`));
    await until(() => quiet.received.length > 0, "it is connected");
    const ask = (round: number): void => {
      for (const stream of busy) stream.subscribe(ROUTE_TYPE, [NAMES[round % NAMES.length] ?? "a"]);
    };
    for (let round = 0; round < 20; round += 1) ask(round);
    xds.setSnapshot(everything("v1"));
    let round = 0;
    for (; !quiet.resources.includes("a@v1") && round < 20_000; round += 1) {
      ask(round);
      await turn();
    }
    expect(quiet.resources).toEqual(["a@v0", "a@v1"]);
  });
});
