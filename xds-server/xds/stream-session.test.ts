import { describe, expect, it } from "vitest";
import { planMesh } from "../plan/plan.js";
import { rankerFixture, type StateFixture, stateOf, withEcho, withWeights } from "../plan/state-fixture.js";
import {
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  LISTENER_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  SCOPE_TYPE,
} from "../snapshot/resource-types.js";
import { buildSnapshot, type Snapshot } from "../snapshot/snapshot.js";
import { translate } from "../translate/translate-fixture.js";
import { Envoy, SHORT } from "./hand-driven-envoy-fixture.js";
import type { NodeRecord } from "./node-record.js";

function snapshotOf(fixture: StateFixture, gateConfig = "config", previous?: Snapshot): Snapshot {
  const resources = translate(planMesh(stateOf(fixture)), {
    gate: { module: Buffer.from("\0asm"), config: Buffer.from(gateConfig) },
    transcoderDescriptor: Buffer.from("descriptors"),
  });
  return buildSnapshot(resources, previous);
}

function endpointsOf(snapshot: Snapshot): string[] {
  return [...snapshot.byType[ENDPOINT_TYPE].keys()];
}

/** An Envoy that went through its start and holds all of a snapshot. */
function started(snapshot: Snapshot): Envoy {
  const envoy = new Envoy();
  envoy.session.setTarget(snapshot, 0);
  envoy.ask(CLUSTER_TYPE);
  envoy.ask(ENDPOINT_TYPE, endpointsOf(snapshot));
  envoy.ask(LISTENER_TYPE);
  envoy.ask(EXTENSION_TYPE, ["gate"]);
  envoy.ask(SCOPE_TYPE);
  envoy.acceptAll();
  envoy.ask(ROUTE_TYPE, [...snapshot.byType[ROUTE_TYPE].keys()]);
  envoy.acceptAll();
  return envoy;
}

const ranker = rankerFixture();
const [prod] = ranker.aliases ?? [];
const weights = (stable: number, canary: number): StateFixture => withWeights(ranker, stable, canary);
/** One more model, with its own version, route table and scope. */
const grown = withEcho(ranker, "127.0.0.1:19050");

describe("a first connection", () => {
  it("waits for the first snapshot and then answers in order", () => {
    const envoy = new Envoy();
    envoy.ask(ROUTE_TYPE, ["routes/ranker"]);
    envoy.ask(CLUSTER_TYPE);
    envoy.ask(LISTENER_TYPE);
    expect(envoy.take()).toEqual([]);
    envoy.session.setTarget(snapshotOf(ranker), 0);
    expect(envoy.wire.map(({ typeUrl }) => SHORT[typeUrl])).toEqual(["CDS", "LDS"]);
    envoy.ack(envoy.last(CLUSTER_TYPE));
    expect(envoy.take().at(-1)).toBe("RDS +routes/ranker");
  });

  it("follows Envoy's own order without a pause", () => {
    const snapshot = snapshotOf(ranker);
    const envoy = started(snapshot);
    expect(envoy.session.unsettledTypes()).toEqual([]);
    expect(envoy.session.wakeAtMs(0)).toBeUndefined();
    for (const { typeUrl, ackedVersion } of envoy.session.status())
      expect(ackedVersion).toBe(snapshot.typeVersions[typeUrl]);
  });

  it("does not wait for the cluster ACK before it sends endpoints", () => {
    const envoy = new Envoy();
    envoy.session.setTarget(snapshotOf(ranker), 0);
    envoy.ask(CLUSTER_TYPE);
    envoy.take();
    envoy.ask(ENDPOINT_TYPE, ["model/ranker/41"]);
    expect(envoy.take()).toEqual(["EDS +model/ranker/41"]);
  });

  it("answers unknown endpoints with removed, an unknown table with an empty one, and both later when they appear", () => {
    const envoy = started(snapshotOf(ranker));
    envoy.ask(ENDPOINT_TYPE, ["model/echo/1"]);
    envoy.ask(ROUTE_TYPE, ["routes/echo"]);
    expect(envoy.acceptAll()).toEqual(["EDS -model/echo/1", "RDS +routes/echo"]);
    envoy.session.setTarget(snapshotOf(grown), 0);
    expect(envoy.acceptAll()).toContain("RDS +routes/echo");
  });

  it("passes over types that it does not serve", () => {
    const envoy = new Envoy();
    envoy.session.setTarget(snapshotOf(ranker), 0);
    const typeUrl = "type.googleapis.com/envoy.service.thrift_proxy.v3.RouteConfiguration";
    envoy.request({ typeUrl, resourceNamesSubscribe: ["thrift"] });
    expect(envoy.take()).toEqual([]);
  });

  it("answers every name of a later subscription, held or not", () => {
    const envoy = started(snapshotOf(ranker));
    envoy.ask(ROUTE_TYPE, ["routes/ranker"]);
    expect(envoy.take()).toEqual(["RDS +routes/ranker"]);
  });
});

describe("changes", () => {
  it("re-send one route table for a weight", () => {
    const before = snapshotOf(ranker);
    const envoy = started(before);
    envoy.session.setTarget(snapshotOf(weights(90, 10), "config", before), 0);
    expect(envoy.acceptAll()).toEqual(["RDS +routes/ranker"]);
  });

  it("are merged while a response is under way", () => {
    const envoy = started(snapshotOf(ranker));
    envoy.session.setTarget(snapshotOf(weights(90, 10)), 0);
    const first = envoy.last(ROUTE_TYPE);
    for (const stable of [80, 81, 82]) envoy.session.setTarget(snapshotOf(weights(stable, 10)), 0);
    expect(envoy.take()).toEqual(["RDS +routes/ranker"]);
    envoy.ack(first);
    expect(envoy.take()).toEqual(["RDS +routes/ranker"]);
  });

  it("send the endpoints of a changed cluster again", () => {
    const before = snapshotOf(ranker);
    const envoy = started(before);
    const clusters = new Map(before.byType[CLUSTER_TYPE]);
    const cluster = clusters.get("model/ranker/41");
    if (cluster === undefined) throw new Error("no such cluster");
    clusters.set(cluster.name, { ...cluster, version: "changed" });
    envoy.session.setTarget({ ...before, byType: { ...before.byType, [CLUSTER_TYPE]: clusters } }, 0);
    expect(envoy.take()).toEqual(["CDS +model/ranker/41", "EDS +model/ranker/41"]);
  });

  it("keep the unsubscribed away, and give them back when asked again", () => {
    const envoy = started(snapshotOf(ranker));
    envoy.drop(ROUTE_TYPE, ["routes/ranker"]);
    envoy.session.setTarget(snapshotOf(weights(90, 10)), 0);
    expect(envoy.take()).toEqual([]);
    envoy.ask(ROUTE_TYPE, ["routes/ranker"]);
    expect(envoy.take()).toEqual(["RDS +routes/ranker"]);
  });
});

describe("make before break", () => {
  it("adds a model: cluster, endpoints, then scope and routes, then the gate", () => {
    const envoy = started(snapshotOf(ranker));
    envoy.session.setTarget(snapshotOf(grown, "config with echo"), 0);
    expect(envoy.take()).toEqual(["CDS +model/echo/1", "EDS +_server"]);
  });

  it("waits for each step's acceptance", () => {
    const envoy = started(snapshotOf(ranker));
    envoy.session.setTarget(snapshotOf(grown, "config with echo"), 0);
    const clusters = envoy.last(CLUSTER_TYPE);
    envoy.ack(envoy.last(ENDPOINT_TYPE));
    envoy.take();
    envoy.ask(ENDPOINT_TYPE, ["model/echo/1"]);
    expect(envoy.take()).toEqual(["EDS +model/echo/1"]);
    envoy.ack(clusters);
    expect(envoy.take()).toEqual(["SRDS +echo"]);
    // Envoy asks for the table before it acknowledges the scope.
    envoy.ask(ROUTE_TYPE, ["routes/echo"]);
    const table = envoy.last(ROUTE_TYPE);
    expect(envoy.take()).toEqual(["RDS +routes/echo"]);
    envoy.ack({ typeUrl: SCOPE_TYPE, nonce: String(Number(table?.nonce) - 1) });
    expect(envoy.take()).toEqual([]);
    envoy.ack(table);
    expect(envoy.take()).toEqual(["ECDS +gate"]);
  });

  it("removes a model the other way round", () => {
    const envoy = started(snapshotOf(grown, "config with echo"));
    envoy.session.setTarget(snapshotOf(ranker), 0);
    const server = envoy.last(ENDPOINT_TYPE);
    const gate = envoy.last(EXTENSION_TYPE);
    expect(envoy.take()).toEqual(["EDS +_server", "ECDS +gate"]);
    envoy.ack(server);
    expect(envoy.take()).toEqual([]);
    envoy.ack(gate);
    const scope = envoy.last(SCOPE_TYPE);
    expect(envoy.take()).toEqual(["SRDS -echo"]);
    envoy.drop(ROUTE_TYPE, ["routes/echo"]);
    expect(envoy.take()).toEqual(["CDS -model/echo/1"]);
    envoy.ack(scope);
    expect(envoy.take()).toEqual([]);
  });

  it("does not route to a cluster that is just being removed, until it is there again", () => {
    const envoy = started(snapshotOf(grown, "config with echo"));
    envoy.session.setTarget(snapshotOf(ranker), 0);
    for (const type of [ENDPOINT_TYPE, EXTENSION_TYPE, SCOPE_TYPE] as const) envoy.ack(envoy.last(type));
    envoy.drop(ROUTE_TYPE, ["routes/echo"]);
    const removal = envoy.last(CLUSTER_TYPE);
    expect(envoy.take().at(-1)).toBe("CDS -model/echo/1");
    envoy.session.setTarget(snapshotOf(grown, "config with echo"), 0);
    expect(envoy.take()).toEqual(["EDS +_server"]);
    envoy.drop(ENDPOINT_TYPE, ["model/echo/1"]);
    envoy.ack(removal);
    const again = envoy.last(CLUSTER_TYPE);
    expect(envoy.take()).toEqual(["CDS +model/echo/1"]);
    envoy.ack(again);
    expect(envoy.take()).toEqual(["SRDS +echo"]);
  });

  it("takes the last endpoint away only after the routes left it", () => {
    const envoy = started(snapshotOf(ranker));
    envoy.session.setTarget(snapshotOf({ ...ranker, ready: { ...ranker.ready, "ranker:42": [] } }), 0);
    const routes = envoy.last(ROUTE_TYPE);
    const server = envoy.last(ENDPOINT_TYPE);
    expect(envoy.take()).toEqual(["EDS +_server", "RDS +routes/ranker"]);
    envoy.ack(server);
    expect(envoy.take()).toEqual([]);
    envoy.ack(routes);
    expect(envoy.take()).toEqual(["EDS +model/ranker/42"]);
  });

  it("takes one of two endpoints away at once", () => {
    const envoy = started(snapshotOf(ranker));
    envoy.session.setTarget(snapshotOf({ ...ranker, ready: { ...ranker.ready, "ranker:41": ["127.0.0.1:19000"] } }), 0);
    expect(envoy.take()).toEqual(["EDS +_server +model/ranker/41"]);
  });

  it("waits at most 3 s for a cluster, and 1 s with the gate", () => {
    const envoy = started(snapshotOf(ranker));
    envoy.session.setTarget(snapshotOf(grown, "config with echo"), 0);
    envoy.take();
    expect(envoy.session.wakeAtMs(0)).toBe(1_000);
    envoy.at(1_000);
    expect(envoy.take()).toEqual(["ECDS +gate"]);
    envoy.at(2_999);
    expect(envoy.take()).toEqual([]);
    expect(envoy.session.wakeAtMs(2_999)).toBe(3_000);
    envoy.at(3_000);
    expect(envoy.take()).toEqual(["SRDS +echo"]);
    expect(envoy.expired).toEqual(["ECDS", "SRDS"]);
    expect(envoy.session.wakeAtMs(3_000)).toBeUndefined();
  });
});

describe("refusals", () => {
  it("are remembered until the content changes: no loop", () => {
    const envoy = started(snapshotOf(ranker));
    envoy.session.setTarget(snapshotOf(weights(90, 10)), 0);
    envoy.nack(envoy.last(ROUTE_TYPE), "weights are bad");
    envoy.take();
    for (let time = 1; time < 60; time += 1) envoy.at(time * 1_000);
    envoy.session.setTarget(snapshotOf(weights(90, 10)), 0);
    expect(envoy.take()).toEqual([]);
    expect(envoy.session.unsettledTypes()).toEqual([]);
    expect(envoy.node.findings()[0]?.message).toContain("weights are bad");
    const routes = envoy.session.status().find(({ typeUrl }) => typeUrl === ROUTE_TYPE);
    expect(routes?.sentVersion).not.toBe(routes?.ackedVersion);
    envoy.session.setTarget(snapshotOf(weights(91, 9)), 0);
    expect(envoy.acceptAll()).toEqual(["RDS +routes/ranker"]);
    expect(envoy.node.findings()).toEqual([]);
  });

  it("of several resources: each is offered once more on its own, then silence", () => {
    const envoy = new Envoy();
    envoy.session.setTarget(snapshotOf(ranker), 0);
    envoy.ask(ROUTE_TYPE, ["routes/ranker", "routes/ranker-lite"]);
    envoy.nack(envoy.last(ROUTE_TYPE), "one of them is bad");
    expect(envoy.take()).toEqual(["RDS +routes/ranker +routes/ranker-lite", "RDS +routes/ranker"]);
    envoy.nack({ typeUrl: ROUTE_TYPE, nonce: "2" }, "this one");
    expect(envoy.take()).toEqual(["RDS +routes/ranker-lite"]);
    envoy.ack({ typeUrl: ROUTE_TYPE, nonce: "3" });
    expect(envoy.take()).toEqual([]);
    expect(envoy.node.rejections.map(({ name, words }) => `${name}: ${words}`)).toEqual(["routes/ranker: this one"]);
  });

  it("of a cluster hold back routes that need it, while the old ones serve", () => {
    const envoy = started(snapshotOf(ranker));
    const fallback = { ...prod, fallback: ["echo:1"] };
    const next: StateFixture = { ...grown, aliases: [fallback, ...(grown.aliases ?? []).slice(1)] };
    envoy.session.setTarget(snapshotOf(next), 0);
    envoy.nack(envoy.last(CLUSTER_TYPE), "bad cluster");
    envoy.acceptAll();
    envoy.at(60_000);
    expect(envoy.take().join()).not.toContain("routes/ranker");
    envoy.session.setTarget(snapshotOf(weights(90, 10)), envoy.nowMs);
    expect(envoy.acceptAll()).toContain("RDS +routes/ranker");
  });

  it("are seen by the error alone; a stale nonce gives neither credit nor blame", () => {
    const envoy = started(snapshotOf(ranker));
    envoy.session.setTarget(snapshotOf(weights(90, 10)), 0);
    envoy.nack({ typeUrl: ROUTE_TYPE, nonce: "made-up" }, "not about this");
    expect(envoy.node.rejections).toEqual([]);
    expect(envoy.session.unsettledTypes()).toEqual([ROUTE_TYPE]);
  });

  it("count the names in a request with a stale nonce", () => {
    const envoy = started(snapshotOf(grown));
    envoy.drop(ROUTE_TYPE, ["routes/echo"]);
    envoy.request({
      typeUrl: ROUTE_TYPE,
      responseNonce: "old",
      resourceNamesSubscribe: ["routes/echo"],
    });
    expect(envoy.take()).toEqual(["RDS +routes/echo"]);
  });
});

describe("a new stream", () => {
  function versions(snapshot: Snapshot, type: ResourceType): Record<string, string> {
    return Object.fromEntries([...snapshot.byType[type]].map(([name, { version }]) => [name, version]));
  }

  function reconnect(held: Snapshot, target: Snapshot, node?: NodeRecord): Envoy {
    const envoy = new Envoy(node);
    envoy.session.setTarget(target, 0);
    const names = (type: ResourceType): string[] => [...held.byType[type].keys()];
    envoy.ask(CLUSTER_TYPE, [], versions(held, CLUSTER_TYPE));
    envoy.ask(ENDPOINT_TYPE, names(ENDPOINT_TYPE), versions(held, ENDPOINT_TYPE));
    envoy.ask(LISTENER_TYPE, [], versions(held, LISTENER_TYPE));
    envoy.ask(SCOPE_TYPE, [], versions(held, SCOPE_TYPE));
    envoy.ask(EXTENSION_TYPE, ["gate"], versions(held, EXTENSION_TYPE));
    envoy.ask(ROUTE_TYPE, names(ROUTE_TYPE), versions(held, ROUTE_TYPE));
    return envoy;
  }

  it("with the same content gets empty answers and its endpoints, nothing else", () => {
    const snapshot = snapshotOf(ranker);
    const envoy = reconnect(snapshot, snapshotOf(ranker));
    const endpoints = endpointsOf(snapshot).map((name) => `+${name}`);
    expect(envoy.take()).toEqual(["CDS", `EDS ${endpoints.join(" ")}`, "LDS", "SRDS"]);
  });

  it("gets what changed and loses what was deleted meanwhile, in order", () => {
    const envoy = reconnect(snapshotOf(grown, "config with echo"), snapshotOf(ranker));
    const seen = envoy.acceptAll();
    expect(seen.indexOf("SRDS -echo")).toBeGreaterThan(seen.indexOf("ECDS +gate"));
    expect(seen.join()).not.toContain("-model/echo/1");
    envoy.drop(ROUTE_TYPE, ["routes/echo"]);
    expect(envoy.acceptAll()).toEqual(["CDS -model/echo/1"]);
  });

  it("gets a new model although an old one has to wait for its removal", () => {
    const held = snapshotOf({ ...ranker, aliases: [{ ...prod, fallback: [] }] });
    const renamed: StateFixture = {
      ...grown,
      models: (grown.models ?? []).filter(({ name }) => name !== "ranker-lite"),
    };
    const envoy = reconnect(held, snapshotOf({ ...renamed, aliases: [{ ...prod, fallback: [] }] }));
    expect(envoy.take()[0]).toBe("CDS +model/echo/1");
    expect(envoy.nowMs).toBe(0);
  });

  it("is answered whatever nonce its first request carries", () => {
    const envoy = new Envoy();
    envoy.session.setTarget(snapshotOf(ranker), 0);
    envoy.request({ typeUrl: LISTENER_TYPE, responseNonce: "41" });
    expect(envoy.take()).toEqual(["LDS +gateway"]);
  });

  it("is not sent again what it refused before", () => {
    const before = snapshotOf(ranker);
    const envoy = started(before);
    const bad = snapshotOf(weights(90, 10));
    envoy.session.setTarget(bad, 0);
    envoy.nack(envoy.last(ROUTE_TYPE), "bad");
    expect(reconnect(before, bad, envoy.node).take().join()).not.toContain("routes/ranker");
  });
});
