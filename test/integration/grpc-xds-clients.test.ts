import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { API_TYPES, type ApiService } from "../support/api-service.js";
import { type ClosedLoop, startClosedLoop } from "../support/closed-loop.js";
import { type NamedBackend, startNamedBackend } from "../support/named-backend.js";
import { XDS_IMPLEMENTATIONS, XdsClient } from "../support/xds-client.js";
import { XdsHost } from "../support/xds-host.js";

/** Far above what anything here needs, so that nothing depends on speed. */
const PATIENCE = { timeout: 30_000, interval: 20 };
/** Calls under way at a time while the configuration changes. */
const CALLERS = 4;
/** Answers in a row that tell where calls go now: more than are under way at a time. */
const LATEST = 3 * CALLERS;

describe.each(XDS_IMPLEMENTATIONS)("the unmodified %s as a client of the xDS server, by SotW ADS", (implementation) => {
  let a: NamedBackend;
  let b: NamedBackend;
  let host: XdsHost;
  const clients: XdsClient[] = [];
  const loops: ClosedLoop<string>[] = [];

  beforeAll(async () => {
    a = await startNamedBackend("A");
    b = await startNamedBackend("B");
  });
  afterAll(() => {
    a?.close();
    b?.close();
  });
  beforeEach(async () => {
    host = new XdsHost();
    await host.start();
  });
  afterEach(async () => {
    // Of a test that failed on the way.
    await Promise.all(loops.splice(0).map((loop) => loop.stop()));
    await Promise.all(clients.splice(0).map((client) => client.close()));
    host.stop();
  });

  const connect = (): XdsClient => {
    const client = new XdsClient({ implementation, adsPort: host.port, nodeId: "grpc" });
    clients.push(client);
    return client;
  };
  const toA = (change: Partial<ApiService> = {}): ApiService => ({
    listener: "orders",
    cluster: "first",
    port: a.port,
    ...change,
  });
  const toB = (change: Partial<ApiService> = {}): ApiService => toA({ port: b.port, ...change });

  /** Calls `orders` all the time. */
  const callAllTheTime = (client: XdsClient) => {
    const loop = startClosedLoop(CALLERS, () => client.call("orders"));
    loops.push(loop);
    const latest = (): (string | undefined)[] => loop.calls.slice(-LATEST).map(({ answer }) => answer);
    return {
      /** Waits until all of the latest calls, made from now on, were answered by one backend. */
      reach: (name: string): Promise<void> => {
        const before = loop.calls.length;
        return vi.waitFor(() => {
          expect(loop.calls.length).toBeGreaterThanOrEqual(before + LATEST);
          expect(new Set(latest())).toEqual(new Set([name]));
        }, PATIENCE);
      },
      /** @returns how the calls ended, each way once: a backend's name, or what the client said */
      stop: async (): Promise<(string | undefined)[]> => {
        const calls = await loop.stop();
        return [...new Set(calls.map(({ answer, error }) => answer ?? error?.message))].sort();
      },
    };
  };

  it("finds the backend of a listener", async () => {
    host.publish([toA()]);
    expect(await connect().call("orders")).toBe("A");
    for (const type of API_TYPES) {
      await vi.waitFor(() => {
        const status = host.typeOf("grpc", type);
        expect(status?.ackedVersion).not.toBe("");
        expect(status?.ackedVersion).toBe(status?.sentVersion);
      }, PATIENCE);
      expect(host.count("refused", type)).toBe(0);
    }
  });

  /** Keeps the cluster `first` in use, whatever `orders` does. */
  const keeper = (change: Partial<ApiService> = {}): ApiService => toA({ listener: "others", ...change });

  it.each([
    ["of the endpoint", () => [toA()], () => [toB()]],
    ["of the route", () => [toA(), keeper()], () => [toB({ cluster: "second" }), keeper()]],
    [
      "of everything",
      () => [toA(), keeper()],
      () => [toB({ cluster: "second", revision: "2" }), keeper({ revision: "2" })],
    ],
  ])("moves with a change %s, there and back, and loses no call", async (_what, before, after) => {
    host.publish(before());
    const calls = callAllTheTime(connect());
    await calls.reach("A");
    host.publish(after());
    await calls.reach("B");
    host.publish(before());
    await calls.reach("A");
    host.publish(after());
    await calls.reach("B");
    expect(await calls.stop()).toEqual(["A", "B"]);
    expect(host.exchanges.filter(({ what }) => what === "refused" || what === "waited in vain")).toEqual([]);
  });

  it("loses no call when a cluster is deleted that its calls have left", async () => {
    host.publish([toA(), keeper()]);
    const calls = callAllTheTime(connect());
    await calls.reach("A");
    host.publish([toB({ cluster: "second" }), keeper()]);
    await calls.reach("B");
    host.publish([toB({ cluster: "second" })]);
    await calls.reach("B");
    expect(await calls.stop()).toEqual(["A", "B"]);
  });

  it("loses none when its cluster is deleted in the moment of the move", async () => {
    host.publish([toA()]);
    const calls = callAllTheTime(connect());
    await calls.reach("A");
    host.publish([toB({ cluster: "second" })]);
    await calls.reach("B");
    // gRPC accepts routes a moment before its calls follow them; the cluster goes when it has dropped the name.
    expect(await calls.stop()).toEqual(["A", "B"]);
  });

  it("makes calls wait for a name that does not exist yet, and answers them when it does", async () => {
    host.publish([toB({ listener: "others", cluster: "second" })]);
    const client = connect();
    const call = client.call("orders");
    await expect(client.call("orders", 0.3)).rejects.toMatchObject({ status: "DEADLINE_EXCEEDED" });
    host.publish([toA(), toB({ listener: "others", cluster: "second" })]);
    // After 15 s without an answer gRPC would have failed it.
    expect(await call).toBe("A");
  });

  it("gives a name that gRPC has taken for missing, after its 15 s, as soon as it exists", async () => {
    host.publish([]);
    const client = connect();
    // From a little after the 15 s on, grpcio fails calls; @grpc/grpc-js-xds lets them wait on.
    const [missing, words] =
      implementation === "grpcio"
        ? ["UNAVAILABLE", /orders.*does not exist/]
        : ["DEADLINE_EXCEEDED", /waiting for name resolution/];
    await expect(client.call("orders", 17)).rejects.toMatchObject({
      status: missing,
      message: expect.stringMatching(words),
    });
    host.publish([toA()]);
    await vi.waitFor(async () => expect(await client.call("orders")).toBe("A"), PATIENCE);
  });

  it("gives each of two clients with one node id its own names", async () => {
    const others = toB({ listener: "others", cluster: "second" });
    host.publish([toA(), others]);
    const [one, two] = [connect(), connect()];
    expect(await Promise.all([one.call("orders"), two.call("others")])).toEqual(["A", "B"]);
    host.publish([toB({ cluster: "second" }), others]);
    await vi.waitFor(async () => expect(await one.call("orders")).toBe("B"), PATIENCE);
    expect(await two.call("others")).toBe("B");
    // Each may ask for more at any time.
    expect(await Promise.all([one.call("others"), two.call("orders")])).toEqual(["B", "B"]);
  });

  /** Ends the xDS server and starts another, which the client finds before it has read its registry. */
  const restart = async (): Promise<void> => {
    host.stop();
    await host.start();
    await vi.waitFor(() => expect(host.streamCount).toBe(1), PATIENCE);
  };

  it("serves on without the xDS server, and takes what the next one says", async () => {
    host.publish([toA()]);
    const calls = callAllTheTime(connect());
    await calls.reach("A");
    host.stop();
    await calls.reach("A");
    await restart();
    await calls.reach("A");
    host.publish([toB({ cluster: "second" }), keeper()]);
    await calls.reach("B");
    expect(await calls.stop()).toEqual(["A", "B"]);
  });

  it("finds its way when its cluster was deleted while the xDS server was away", async () => {
    host.publish([toA()]);
    const calls = callAllTheTime(connect());
    await calls.reach("A");
    await restart();
    await calls.reach("A");
    host.publish([toB({ cluster: "second" })]);
    await calls.reach("B");
    // A fresh server does not know where the client's routes lead, but that it still names the cluster.
    expect(await calls.stop()).toEqual(["A", "B"]);
  });

  it.each([
    ["Listener", /filter/i],
    ["RouteConfiguration", /domain/i],
    ["Cluster", /type/i],
    ["ClusterLoadAssignment", /priorit/i],
  ] as const)(
    "keeps its last good %s when it refuses one, is not pressed, and takes a mended one",
    async (type, why) => {
      host.publish([toA()]);
      const calls = callAllTheTime(connect());
      await calls.reach("A");
      const sent = host.count("sent", type);
      host.publish([toA({ revision: "2", flawed: type })]);
      await vi.waitFor(() => expect(host.count("refused", type)).toBe(1), PATIENCE);
      expect(host.exchanges.find(({ what }) => what === "refused")?.words).toMatch(why);
      expect(host.typeOf("grpc", type)?.nack).toMatch(why);
      await calls.reach("A");
      host.publish([toB({ revision: "3" })]);
      await calls.reach("B");
      expect(await calls.stop()).toEqual(["A", "B"]);
      // The refused content once and the mended one once: nothing between them.
      await vi.waitFor(() => expect(host.count("sent", type)).toBe(sent + 2), PATIENCE);
      expect(host.count("refused", type)).toBe(1);
      expect(host.typeOf("grpc", type)?.nack).toBe("");
    },
  );
});
