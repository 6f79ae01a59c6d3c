import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { EXTENSION_TYPE, ROUTE_TYPE } from "../snapshot/resource-types.js";
import { NodeBook, type ObservedStream, tellAll } from "./csds-node-book.js";
import { CrowdConnection, type CrowdStream, listen, until, WITHOUT_LIMIT } from "./stream-crowd-fixture.js";
import { World } from "./world-fixture.js";
import { XdsServer } from "./xds-server.js";

/** What streams leave behind when they end. */

const BATCHES = 50;
const BATCH = 200;
/** A stream that is kept by mistake holds more than 10 KB, so 9,000 of them hold far more than this. */
const HEAP_GROWTH_MAX_BYTES = 48 * 1024 * 1024;
const SETTLE_MS = 30_000;
/** For a machine that does much else; nothing here is about time. */
const LIMIT = { timeout: 120_000 };
const NOTHING = (): void => undefined;

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

/** A server on virtual time that tells all that it holds on to. */
class WatchedServer {
  readonly clock = new ManualClock();
  readonly book = new NodeBook(this.clock);
  /** Every session that there ever was. */
  readonly sessions: WeakRef<ObservedStream>[] = [];
  openCount = 0;
  readonly xds: XdsServer;

  constructor() {
    const began = (stream: ObservedStream): void => void this.sessions.push(new WeakRef(stream));
    const metrics = {
      streams: (open: number): void => {
        this.openCount = open;
      },
      sent: NOTHING,
      accepted: NOTHING,
      refused: NOTHING,
      waitExpired: NOTHING,
    };
    this.xds = new XdsServer({
      clock: this.clock,
      logger: { info: NOTHING, warn: NOTHING, isLevelEnabled: () => false },
      observer: tellAll(this.book, { began, ended: NOTHING, accepted: NOTHING, refused: NOTHING }),
      metrics,
      admission: WITHOUT_LIMIT,
    });
  }

  publish(revision: string): void {
    this.xds.setSnapshot(new World().set(ROUTE_TYPE, ["r"], revision).set(EXTENSION_TYPE, ["f"], revision).snapshot());
  }

  /** Sessions that the memory still holds. */
  keptCount(): number {
    return this.sessions.filter((session) => session.deref() !== undefined).length;
  }
}

/** Opens a batch of streams that hold all; then none accepts any more, and a timer waits for each. */
async function openWaiting(watched: WatchedServer, connection: CrowdConnection, name: string): Promise<CrowdStream[]> {
  watched.publish(`${name}-a`);
  const streams = Array.from({ length: BATCH }, (_, index) => connection.open("delta", `envoy-${index}`));
  for (const stream of streams) {
    stream.subscribe(ROUTE_TYPE, ["r"]);
    stream.subscribe(EXTENSION_TYPE, ["f"]);
  }
  await until(() => streams.every(({ resources }) => resources.length === 2), "all are answered");
  const hasAccepted = (): boolean =>
    watched.xds.status().every(({ types }) => types.every((type) => type.ackedVersion !== ""));
  await until(hasAccepted, "all have accepted");
  for (const stream of streams) stream.accepts = false;
  const timersBefore = watched.clock.pendingTimers;
  // Nobody accepts the routes, so the filter waits on every stream.
  watched.publish(`${name}-b`);
  expect(watched.clock.pendingTimers).toBe(timersBefore + BATCH);
  return streams;
}

it("fault 12 (gcp#570): 10,000 streams leave no stream, session, timer or memory behind", LIMIT, async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const heapAfterCollect = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const watched = new WatchedServer();
  const { port, close } = await listen(watched.xds);
  cleanUps.push(close);
  let heapBytes = 0;
  for (let batch = 0; batch < BATCHES; batch += 1) {
    const connection = new CrowdConnection(port);
    cleanUps.push(() => connection.close());
    const streams = await openWaiting(watched, connection, String(batch));
    const settled = watched.xds.whenSettled(SETTLE_MS);
    for (const [index, stream] of streams.entries()) {
      if (index % 2 === 0) stream.end();
      else stream.cancel();
    }
    await until(() => watched.openCount === 0, "the server has no stream");
    expect(await settled).toEqual({ settled: true, unsettled: [] });
    expect(watched.clock.pendingTimers).toBe(0);
    expect(watched.xds.status()).toEqual([]);
    expect(watched.book.nodes()).toEqual([]);
    connection.close();
    if (batch === 4) heapBytes = heapAfterCollect();
  }
  expect(watched.sessions).toHaveLength(BATCHES * BATCH);
  // The last batch may still stand in buffers.
  await until(() => {
    collect();
    return watched.keptCount() <= BATCH;
  }, "the sessions are collected");
  expect(heapAfterCollect() - heapBytes).toBeLessThan(HEAP_GROWTH_MAX_BYTES);
});
