import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { ENDPOINT_TYPE, ROUTE_TYPE } from "../snapshot/resource-types.js";
import { Caller, connect, WatchedDoor } from "./connection-fixture.js";
import { until } from "./stream-crowd-fixture.js";
import { World } from "./world-fixture.js";
import type { XdsServerDeps } from "./xds-server.js";

/** Streams that come, wait, grow old and are ended, over real connections on virtual time. */

const HOUR_MS = 3_600_000;
/** For a machine that does much else; nothing here is about time. */
const LIMIT = { timeout: 60_000 };
/** What 8,000 streams that were kept by mistake would hold is far above this. */
const HEAP_GROWTH_MAX_BYTES = 32 * 1024 * 1024;
const STORM_WAITED = "8 too many new streams at once, this one has waited for 1000 ms; try again later";
const CLOSING = "14 this control plane is stopping; keep what you have and connect again";

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

async function serve(settings: Pick<XdsServerDeps, "admission" | "streamAge"> = {}) {
  const clock = new ManualClock();
  const door = new WatchedDoor(clock, settings);
  const port = await door.listen();
  cleanUps.push(() => door.close());
  const onOwnConnection = (): ((nodeId: string) => Caller) => {
    const client = connect(port);
    cleanUps.push(() => client.close());
    return (nodeId) => new Caller(client, nodeId, ROUTE_TYPE, ["r"]);
  };
  door.xds.setSnapshot(new World().set(ROUTE_TYPE, ["r"], "v1").set(ENDPOINT_TYPE, ["e"], "v1").snapshot());
  return { clock, door, xds: door.xds, open: onOwnConnection(), onOwnConnection };
}

/** Node ids of streams whose first request was read. */
const readNodes = ({ xds }: WatchedDoor): string[] => xds.status().map(({ nodeId }) => nodeId);
const numbered = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, index) => `envoy-${String(from + index).padStart(4, "0")}`);

describe("new streams", () => {
  it("fault 29 (istio#35263, istio#35046): of 1,000 at once the first are taken, the next wait", LIMIT, async () => {
    const { clock, door, xds, open } = await serve({ admission: { ratePerS: 100, burst: 150, lineMax: 200 } });
    const callers = numbered(0, 1_000).map(open);
    await until(() => door.calls.length === 1_000, "all have come");
    await until(() => readNodes(door).length === 150, "the first are served");
    expect(readNodes(door)).toEqual(numbered(0, 150));
    expect(xds.counts()).toEqual({ open: 150, waiting: 200, behind: 0 });
    await until(() => callers.slice(350).every(({ end }) => end !== undefined), "the others are refused");
    expect(new Set(callers.slice(350).map(({ end }) => end))).toEqual(
      new Set(["8 too many new streams at once, 200 wait already; try again later"]),
    );
    // Nothing of those who wait is read: their requests stay in the windows of HTTP/2.
    const line = door.calls.slice(150, 350);
    expect(line.every((call) => call.listenerCount("data") === 0 && call.readableLength === 0)).toBe(true);
    clock.advance(500);
    await until(() => readNodes(door).length === 200, "50 of those who wait are served");
    expect(readNodes(door)).toEqual(numbered(0, 200));
    clock.advance(500);
    await until(() => callers.filter(({ end }) => end === undefined).length === 250, "who waited too long is refused");
    await until(() => callers.slice(0, 250).every(({ resources }) => resources.length === 1), "all others have theirs");
    expect(readNodes(door)).toEqual(numbered(0, 250));
    expect(new Set(callers.slice(250, 350).map(({ end }) => end))).toEqual(new Set([STORM_WAITED]));
    expect(xds.counts()).toEqual({ open: 250, waiting: 0, behind: 0 });
    expect(door.refused).toEqual(Array.from({ length: 750 }, () => "storm"));
    for (const caller of callers) caller.cancel();
    await until(() => xds.counts().open === 0, "no stream is left");
    expect(clock.pendingTimers).toBe(0);
  });

  it("leave the line when their clients do", LIMIT, async () => {
    const { clock, door, xds, open } = await serve({ admission: { burst: 1 } });
    const callers = numbered(0, 4).map(open);
    await until(() => xds.counts().waiting === 3, "three wait");
    callers[1]?.cancel();
    callers[3]?.cancel();
    await until(() => xds.counts().waiting === 1, "two have left");
    clock.advance(1);
    await until(() => readNodes(door).length === 2, "the other is served");
    expect(readNodes(door)).toEqual(["envoy-0000", "envoy-0002"]);
    expect(door.refused).toEqual([]);
    expect(door.ended).toEqual([]);
  });

  it("do not hold up the other streams of their connection while they wait", LIMIT, async () => {
    const { xds, open } = await serve({ admission: { burst: 1 } });
    const first = open("envoy-1");
    await until(() => first.resources.length === 1, "the first is served");
    const names = Array.from({ length: 20_000 }, (_, index) => `a-name-that-is-not-there-${index}`);
    const waiting = numbered(0, 10).map(open);
    for (const caller of waiting) caller.send({ typeUrl: ROUTE_TYPE, resourceNamesSubscribe: names });
    await until(() => xds.counts().waiting === 10, "the others wait");
    first.send({ typeUrl: ENDPOINT_TYPE, resourceNamesSubscribe: ["e"] });
    await until(() => first.resources.length === 2, "the first is answered again");
    expect(xds.counts().waiting).toBe(10);
  });

  it("are refused while as many are open as may be", LIMIT, async () => {
    const { door, xds, open } = await serve({ admission: { openMax: 2 } });
    const callers = numbered(0, 3).map(open);
    await until(() => callers[2]?.end !== undefined, "the third is refused");
    expect(callers[2]?.end).toBe("8 this control plane serves 2 streams already; try again later");
    expect(door.refused).toEqual(["full"]);
    callers[0]?.cancel();
    await until(() => xds.counts().open === 1, "one is gone");
    const next = open("envoy-9");
    await until(() => next.resources.length === 1, "there is room for another");
    expect(door.ended).toEqual(["client"]);
  });
});

describe("10,000 streams in bursts", () => {
  it("leave no stream, place in the line, timer or memory behind", { timeout: 120_000 }, async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const heapAfterCollect = (): number => {
      collect();
      return process.memoryUsage().heapUsed;
    };
    const admission = { ratePerS: 100, burst: 200, lineMax: 200 };
    const { clock, door, xds, onOwnConnection } = await serve({ admission });
    let heapBytes = 0;
    for (let burst = 0; burst < 20; burst += 1) {
      // HTTP/2 allows a connection about 1,000 cancelled streams at once.
      const callers = numbered(0, 500).map(onOwnConnection());
      await until(() => xds.counts().waiting + door.refused.length === 300, "200 are taken");
      expect(xds.counts()).toEqual({ open: 200, waiting: 200, behind: 0 });
      // Some of those who wait leave, some are taken, the others are refused.
      for (const caller of callers.slice(200, 250)) caller.cancel();
      await until(() => xds.counts().waiting === 150, "some have left");
      clock.advance(1_000);
      expect(xds.counts()).toEqual({ open: 300, waiting: 0, behind: 0 });
      expect(door.refused).toHaveLength(150);
      for (const caller of callers) caller.cancel();
      await until(() => xds.counts().open === 0, "all are gone");
      await until(() => callers.every(({ end }) => end !== undefined), "all have noticed");
      expect(clock.pendingTimers).toBe(0);
      expect(xds.status()).toEqual([]);
      door.calls.length = 0;
      door.refused.length = 0;
      clock.advance(2_000);
      if (burst === 3) heapBytes = heapAfterCollect();
    }
    expect(heapAfterCollect() - heapBytes).toBeLessThan(HEAP_GROWTH_MAX_BYTES);
  });
});

describe("the end of streams", () => {
  it("comes in order at their age, rule 6: after the first acknowledgement", LIMIT, async () => {
    const { clock, door, xds, open } = await serve({ streamAge: { random: () => 0.5 } });
    const old = open("envoy-1");
    const silent = open("envoy-2");
    silent.accepts = false;
    const hasAccepted = (nodeId: string): boolean =>
      xds.status().some((node) => node.nodeId === nodeId && node.types[0]?.ackedVersion !== "");
    await until(() => hasAccepted("envoy-1") && silent.resources.length === 1, "both have theirs");
    clock.advance(11 * HOUR_MS - 1);
    expect(xds.counts().open).toBe(2);
    clock.advance(1);
    expect(readNodes(door)).toEqual(["envoy-2"]);
    await until(() => old.end !== undefined, "the old one is ended");
    expect(old.end).toBe("0 OK");
    xds.setSnapshot(new World().set(ROUTE_TYPE, ["r"], "v2").snapshot());
    silent.accept();
    // The request that acknowledges is still answered.
    await until(() => silent.resources.length === 2, "the silent one is heard");
    expect(silent.end).toBeUndefined();
    clock.advance(0);
    await until(() => silent.end !== undefined, "it is ended too");
    expect(silent.end).toBe("0 OK");
    expect(silent.resources).toEqual(["r@v1", "r@v2"]);
    expect(door.ended).toEqual(["age", "age"]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("comes to all when the server closes, and nobody is taken any more", LIMIT, async () => {
    const { clock, door, xds, open } = await serve({ admission: { burst: 2 } });
    const callers = numbered(0, 4).map(open);
    await until(() => callers.filter(({ resources }) => resources.length === 1).length === 2, "two are served");
    await until(() => xds.counts().waiting === 2, "two wait");
    xds.close();
    const late = open("envoy-9");
    await until(() => [...callers, late].every(({ end }) => end !== undefined), "all are told");
    expect(callers.map(({ end }) => end)).toEqual(["0 OK", "0 OK", CLOSING, CLOSING]);
    expect(late.end).toBe(CLOSING);
    expect(xds.counts()).toEqual({ open: 0, waiting: 0, behind: 0 });
    expect(door.ended).toEqual(["closing", "closing"]);
    expect(door.refused).toEqual(["closing", "closing", "closing"]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("is counted by its reason", LIMIT, async () => {
    const { door, open } = await serve();
    const wrong = open("envoy-1");
    wrong.send({ typeUrl: "" });
    await until(() => wrong.end !== undefined, "it is ended");
    expect(wrong.end).toMatch(/^3 type_url is missing/);
    expect(door.ended).toEqual(["error"]);
  });
});
