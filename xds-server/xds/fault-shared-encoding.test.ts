import { afterEach, expect, it, vi } from "vitest";
import { systemClock } from "../platform/clock.js";
import { CLUSTER_TYPE, ENDPOINT_TYPE } from "../snapshot/resource-types.js";
import { encodeDeltaResponse } from "./delta-wire.js";
import { encodeSotwResponse } from "./sotw-wire.js";
import { CrowdConnection, listen, until, WITHOUT_LIMIT } from "./stream-crowd-fixture.js";
import { World } from "./world-fixture.js";
import { XdsServer } from "./xds-server.js";

/** Counts how often a message is put together; both go on working. */
vi.mock("./delta-wire.js", { spy: true });
vi.mock("./sotw-wire.js", { spy: true });

const CLIENTS = 500;
const SETTLE_MS = 30_000;
/** For a machine that does much else; nothing here is about time. */
const LIMIT = { timeout: 120_000 };

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

it.each([
  ["delta", encodeDeltaResponse],
  ["sotw", encodeSotwResponse],
] as const)(
  "fault 20 (gcp#238 #1324): one change for 500 clients by %s is encoded once",
  LIMIT,
  async (protocol, encode) => {
    const logger = { info: () => undefined, warn: () => undefined, isLevelEnabled: () => false };
    const xds = new XdsServer({ clock: systemClock, logger, admission: WITHOUT_LIMIT });
    const { port, close } = await listen(xds);
    const connection = new CrowdConnection(port);
    cleanUps.push(close, () => connection.close());
    const names = Array.from({ length: 3 }, (_, index) => `c-${index}`);
    const world = new World().set(CLUSTER_TYPE, names, "v1").set(ENDPOINT_TYPE, names, "v1");
    xds.setSnapshot(world.snapshot());
    const streams = Array.from({ length: CLIENTS }, (_, index) => connection.open(protocol, `envoy-${index}`));
    for (const stream of streams) {
      stream.subscribe(CLUSTER_TYPE);
      stream.subscribe(ENDPOINT_TYPE, names);
    }
    await until(() => streams.every(({ resources }) => resources.length >= 2 * names.length), "all have all");
    expect((await xds.whenSettled(SETTLE_MS)).settled).toBe(true);
    for (const revision of ["v2", "v3"]) {
      vi.mocked(encode).mockClear();
      for (const { received } of streams) received.length = 0;
      xds.setSnapshot(world.set(ENDPOINT_TYPE, ["c-2"], revision).snapshot());
      expect((await xds.whenSettled(SETTLE_MS)).settled).toBe(true);
      for (const { resources } of streams) expect(resources).toEqual([`c-2@${revision}`]);
      expect(encode).toHaveBeenCalledTimes(1);
    }
  },
);
