import { afterEach, describe, expect, it } from "vitest";
import {
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  LISTENER_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  SCOPE_TYPE,
  SECRET_TYPE,
} from "../snapshot/resource-types.js";
import { DiscoveryStream, type Received, type Served, serveXds } from "./discovery-client-fixture.js";
import type { DiscoveryMethod } from "./discovery-services.js";
import { SHORT } from "./hand-driven-envoy-fixture.js";
import { World } from "./world-fixture.js";

/**
 * The scenarios of the public conformance suite for xDS servers (ii/xds-test-harness), on a real gRPC client: every
 * protocol, aggregated or not, and every type that the scenario makes sense for. "Does not arrive" is shown by something
 * later that does arrive.
 */
interface Variant {
  readonly protocol: "sotw" | "delta";
  readonly isAggregated: boolean;
}

const SOTW: readonly Variant[] = [
  { protocol: "sotw", isAggregated: false },
  { protocol: "sotw", isAggregated: true },
];
const DELTA: readonly Variant[] = SOTW.map(({ isAggregated }) => ({ protocol: "delta", isAggregated }));

const FULL_STATE = [CLUSTER_TYPE, LISTENER_TYPE, SCOPE_TYPE] as const;
const PARTIAL = [ROUTE_TYPE, ENDPOINT_TYPE, SECRET_TYPE, EXTENSION_TYPE] as const;
const ALL_TYPES: readonly ResourceType[] = [...FULL_STATE, ...PARTIAL];

const methodOf = ({ protocol, isAggregated }: Variant, type: ResourceType): DiscoveryMethod => ({
  protocol,
  typeUrl: isAggregated ? undefined : type,
});

interface Row extends Variant {
  readonly type: ResourceType;
  readonly title: string;
}

function rows(variants: readonly Variant[], types: readonly ResourceType[]): Row[] {
  return variants.flatMap((variant) =>
    types.map((type) => ({
      ...variant,
      type,
      title: `${variant.protocol} ${variant.isAggregated ? "ADS" : "service"} ${SHORT[type]}`,
    })),
  );
}

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

/** A server with a state, and one stream to it. */
class Scenario {
  readonly world = new World();
  readonly stream: DiscoveryStream;
  readonly #served: Served;

  private constructor(served: Served, method: DiscoveryMethod) {
    this.#served = served;
    this.stream = new DiscoveryStream(served.port, method);
    cleanUps.push(
      () => served.close(),
      () => this.stream.close(),
    );
  }

  static async of(row: Row, names: readonly string[]): Promise<Scenario> {
    const scenario = new Scenario(await serveXds(), methodOf(row, row.type));
    scenario.world.set(row.type, names, "v1");
    scenario.publish();
    return scenario;
  }

  publish(): void {
    this.#served.xds.setSnapshot(this.world.snapshot());
  }

  update(type: ResourceType, names: readonly string[], revision: string): void {
    this.world.set(type, names, revision);
    this.publish();
  }

  version(type: ResourceType): string {
    return this.world.snapshot().typeVersions[type];
  }

  /** Makes sure that the server has read all requests so far: a later one is answered. */
  async caughtUp(type: ResourceType): Promise<void> {
    this.update(type, ["marker"], "m1");
    this.stream.subscribe(type, ["marker"]);
    await this.stream.until("marker@m1");
  }
}

const resourcesOf = (responses: readonly Received[]): string[] => responses.flatMap(({ resources }) => resources);

describe("delta", () => {
  it.each(rows(DELTA, ALL_TYPES))("$title: subscribes to one resource after the other on one stream", async (row) => {
    const { stream } = await Scenario.of(row, ["A", "B", "C"]);
    stream.subscribe(row.type, ["A"]);
    expect((await stream.next()).resources).toEqual(["A@v1"]);
    stream.subscribe(row.type, ["B"]);
    expect((await stream.next()).resources).toEqual(["B@v1"]);
  });

  it.each(rows(DELTA, ALL_TYPES))("$title: sends the updated resource only", async (row) => {
    const scenario = await Scenario.of(row, ["A", "B", "C"]);
    scenario.stream.subscribe(row.type, ["A", "B", "C"]);
    expect((await scenario.stream.next()).resources).toEqual(["A@v1", "B@v1", "C@v1"]);
    scenario.update(row.type, ["A"], "v2");
    expect((await scenario.stream.next()).resources).toEqual(["A@v2"]);
  });

  it.each(rows(DELTA, ALL_TYPES))("$title: tells what is missing and sends it once it is created", async (row) => {
    const scenario = await Scenario.of(row, ["A"]);
    scenario.stream.subscribe(row.type, ["A", "B"]);
    const first = await scenario.stream.next();
    expect(first.resources).toContain("A@v1");
    // Of a missing filter nothing is said, for Envoy's start.
    expect(first.removed).toEqual(row.type === EXTENSION_TYPE ? [] : ["B"]);
    scenario.update(row.type, ["B"], "v1");
    const second = await scenario.stream.next();
    expect(second.resources).toEqual(["B@v1"]);
    expect(second.nonce).not.toBe(first.nonce);
  });

  it.each(
    rows(
      DELTA,
      ALL_TYPES.filter((type) => type !== EXTENSION_TYPE),
    ),
  )("$title: tells a removal, and sends what is added again alone", async (row) => {
    const scenario = await Scenario.of(row, ["A", "B", "C"]);
    scenario.stream.subscribe(row.type, ["A", "B", "C"]);
    await scenario.stream.next();
    scenario.world.remove(row.type, "A");
    scenario.publish();
    expect(await scenario.stream.next()).toMatchObject({ removed: ["A"], resources: [] });
    scenario.update(row.type, ["A"], "v2");
    expect((await scenario.stream.next()).resources).toEqual(["A@v2"]);
  });

  it.each(rows(DELTA, ALL_TYPES))("$title: unsubscribes one by one", async (row) => {
    const scenario = await Scenario.of(row, ["A", "B"]);
    scenario.stream.subscribe(row.type, ["A", "B"]);
    await scenario.stream.until("B@v1");
    scenario.stream.unsubscribe(row.type, ["B"]);
    await scenario.caughtUp(row.type);
    scenario.update(row.type, ["B"], "v2");
    scenario.update(row.type, ["A"], "v2");
    expect((await scenario.stream.next()).resources).toEqual(["A@v2"]);
    scenario.stream.unsubscribe(row.type, ["A"]);
    scenario.stream.subscribe(row.type, ["marker"]);
    await scenario.stream.until("marker@m1");
    scenario.update(row.type, ["A"], "v3");
    scenario.update(row.type, ["marker"], "m2");
    expect(resourcesOf(await scenario.stream.until("marker@m2"))).toEqual(["marker@m2"]);
  });
});

describe("several types on one aggregated stream", () => {
  const pairs = (["sotw", "delta"] as const).flatMap((protocol) =>
    (
      [
        [CLUSTER_TYPE, LISTENER_TYPE],
        [ROUTE_TYPE, ENDPOINT_TYPE],
        [CLUSTER_TYPE, ENDPOINT_TYPE],
        [LISTENER_TYPE, ROUTE_TYPE],
      ] as const
    ).map(([first, second]) => ({
      protocol,
      first,
      second,
      title: `${protocol} ${SHORT[first]} and ${SHORT[second]}`,
    })),
  );

  it.each(pairs)("$title: both arrive, and each update goes to its type", async ({ protocol, first, second }) => {
    const row = { protocol, isAggregated: true, type: first, title: "" };
    const scenario = await Scenario.of(row, ["A", "B"]);
    const { stream } = scenario;
    scenario.update(second, ["C", "D"], "v1");
    stream.subscribe(first, ["A", "B"]);
    expect(await stream.next()).toMatchObject({ typeUrl: first, resources: ["A@v1", "B@v1"] });
    stream.subscribe(second, ["C", "D"]);
    expect(await stream.next()).toMatchObject({ typeUrl: second, resources: ["C@v1", "D@v1"] });
    scenario.update(first, ["A"], "v2");
    const [update] = await stream.until("A@v2");
    expect(update?.typeUrl).toBe(first);
    scenario.update(second, ["C"], "v2");
    const updates = await stream.until("C@v2");
    expect(updates.every(({ typeUrl }) => typeUrl === second)).toBe(true);
  });
});

describe("state of the world", () => {
  it.each(rows(SOTW, FULL_STATE))(
    "$title: the wildcard gets all, updates and additions, each in one response",
    async (row) => {
      const scenario = await Scenario.of(row, ["A", "B"]);
      const { stream } = scenario;
      stream.askForAll(row.type);
      const version = (): string => scenario.version(row.type);
      expect(await stream.next()).toMatchObject({ resources: ["A@v1", "B@v1"], version: version() });
      scenario.update(row.type, ["A", "B"], "v2");
      expect(await stream.next()).toMatchObject({ resources: ["A@v2", "B@v2"], version: version() });
      scenario.update(row.type, ["C"], "v2");
      expect(await stream.next()).toMatchObject({ resources: ["A@v2", "B@v2", "C@v2"], version: version() });
      scenario.world.remove(row.type, "A");
      scenario.publish();
      expect(await stream.next()).toMatchObject({ resources: ["B@v2", "C@v2"], version: version() });
    },
  );

  it.each(rows(SOTW, FULL_STATE))(
    "$title: a named subset is updated whole, at the version of the type",
    async (row) => {
      const scenario = await Scenario.of(row, ["A", "B", "C"]);
      scenario.stream.subscribe(row.type, ["A", "B"]);
      const version = (): string => scenario.version(row.type);
      expect(await scenario.stream.next()).toMatchObject({ resources: ["A@v1", "B@v1"], version: version() });
      scenario.update(row.type, ["A"], "v2");
      expect(await scenario.stream.next()).toMatchObject({ resources: ["A@v2", "B@v1"], version: version() });
    },
  );

  it.each(rows(SOTW, PARTIAL))("$title: of a named subset only what changed is sent again", async (row) => {
    const scenario = await Scenario.of(row, ["A", "B", "C"]);
    scenario.stream.subscribe(row.type, ["A", "B"]);
    const version = (): string => scenario.version(row.type);
    expect(await scenario.stream.next()).toMatchObject({ resources: ["A@v1", "B@v1"], version: version() });
    scenario.update(row.type, ["A"], "v2");
    expect(await scenario.stream.next()).toMatchObject({ resources: ["A@v2"], version: version() });
  });

  it.each(rows(SOTW, ALL_TYPES))("$title: sends a missing name once it is created", async (row) => {
    const scenario = await Scenario.of(row, ["A"]);
    scenario.stream.subscribe(row.type, ["A", "B"]);
    expect((await scenario.stream.next()).resources).toContain("A@v1");
    scenario.update(row.type, ["B"], "v2");
    const isFull = (FULL_STATE as readonly string[]).includes(row.type);
    expect((await scenario.stream.next()).resources).toEqual(isFull ? ["A@v1", "B@v2"] : ["B@v2"]);
  });

  it.each(rows(SOTW, ALL_TYPES))("$title: unsubscribes from some", async (row) => {
    const scenario = await Scenario.of(row, ["A", "B"]);
    scenario.stream.subscribe(row.type, ["A", "B"]);
    await scenario.stream.next();
    scenario.stream.unsubscribe(row.type, ["B"]);
    scenario.stream.subscribe(row.type, ["marker"]);
    await scenario.caughtUp(row.type);
    scenario.update(row.type, ["B"], "v2");
    scenario.update(row.type, ["A"], "v2");
    const [update, ...others] = await scenario.stream.until("A@v2");
    expect(update?.resources.filter((name) => name !== "marker@m1")).toEqual(["A@v2"]);
    expect(others).toEqual([]);
  });

  // The harness drops all names by naming the empty one; an empty list must mean the same after anything was named.
  const waysOut = rows(SOTW, ALL_TYPES).flatMap((row) =>
    [[""], []].map((names) => ({ ...row, names, title: `${row.title} by [${names.map(() => '""')}]` })),
  );
  it.each(waysOut)("$title: unsubscribes from all, which is no wildcard", async (row) => {
    const scenario = await Scenario.of(row, ["A", "B"]);
    const { stream } = scenario;
    stream.subscribe(row.type, ["A", "B"]);
    await stream.next();
    stream.setNames(row.type, row.names);
    stream.setNames(row.type, ["marker"]);
    await scenario.caughtUp(row.type);
    stream.setNames(row.type, row.names);
    scenario.update(row.type, ["A", "B"], "v2");
    stream.setNames(row.type, ["marker"]);
    scenario.update(row.type, ["marker"], "m2");
    expect(new Set(resourcesOf(await stream.until("marker@m2")))).not.toContain("A@v2");
    expect(stream.received.some(({ resources }) => resources.includes("B@v2"))).toBe(false);
  });
});

describe("all four", () => {
  it.each(rows([...SOTW, ...DELTA], ALL_TYPES))("$title: a named subset gets just that", async (row) => {
    const { stream } = await Scenario.of(row, ["A", "B", "C", "D"]);
    stream.subscribe(row.type, ["B", "D"]);
    const response = await stream.next();
    expect(response).toMatchObject({ typeUrl: row.type, resources: ["B@v1", "D@v1"], identifier: "servemesh" });
  });
});
