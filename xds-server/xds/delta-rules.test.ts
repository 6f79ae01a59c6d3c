import { describe, expect, it } from "vitest";
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
import { DELTA_ADS, Envoy } from "./hand-driven-envoy-fixture.js";
import { NodeRecord } from "./node-record.js";
import { World } from "./world-fixture.js";

/** Rules of delta that need no second type; order between types: stream-session.test.ts. */

const world = (type: ResourceType, names: readonly string[], revision = "v1"): World =>
  new World().set(type, names, revision);

function connected(state: World): Envoy {
  const envoy = new Envoy();
  envoy.session.setTarget(state.snapshot(), 0);
  return envoy;
}

describe("subscriptions", () => {
  it("rule 18: an empty first request means all only for the types that Envoy asks for as a whole", () => {
    const state = world(CLUSTER_TYPE, ["a"]).set(LISTENER_TYPE, ["l"], "v1").set(SCOPE_TYPE, ["s"], "v1");
    const envoy = connected(state.set(ENDPOINT_TYPE, ["a"], "v1").set(ROUTE_TYPE, ["r"], "v1"));
    for (const type of [CLUSTER_TYPE, ENDPOINT_TYPE, LISTENER_TYPE, SCOPE_TYPE, ROUTE_TYPE] as const) envoy.ask(type);
    expect(envoy.take()).toEqual(["CDS +a", "LDS +l", "SRDS +s"]);
  });

  it("rule 19: the wildcard of an empty first request survives a name, and `*` may be dropped while names stay", () => {
    const state = world(CLUSTER_TYPE, ["a", "b"]);
    const envoy = connected(state);
    envoy.ask(CLUSTER_TYPE);
    envoy.acceptAll();
    envoy.ask(CLUSTER_TYPE, ["a"]);
    expect(envoy.acceptAll()).toEqual(["CDS +a"]);
    envoy.session.setTarget(state.set(CLUSTER_TYPE, ["b"], "v2").snapshot(), 0);
    expect(envoy.acceptAll()).toEqual(["CDS +b"]);
    envoy.drop(CLUSTER_TYPE, ["*"]);
    envoy.session.setTarget(state.set(CLUSTER_TYPE, ["a", "b"], "v3").snapshot(), 0);
    expect(envoy.acceptAll()).toEqual(["CDS +a"]);
  });

  it("rule 19: `*` means all of any type", () => {
    const state = world(ENDPOINT_TYPE, ["a", "b"]);
    const envoy = connected(state);
    envoy.ask(ENDPOINT_TYPE, ["*"]);
    expect(envoy.acceptAll()).toEqual(["EDS +a +b"]);
    envoy.session.setTarget(state.remove(ENDPOINT_TYPE, "a").set(ENDPOINT_TYPE, ["c"], "v1").snapshot(), 0);
    expect(envoy.acceptAll()).toEqual(["EDS -a +c"]);
  });

  it("rule 20: dropping a name is answered only where the wildcard still covers it", () => {
    const envoy = connected(world(CLUSTER_TYPE, ["a", "b"]));
    envoy.ask(CLUSTER_TYPE, ["a", "*", "no such"]);
    envoy.acceptAll();
    envoy.drop(CLUSTER_TYPE, ["a", "no such"]);
    expect(envoy.acceptAll()).toEqual(["CDS +a -no such"]);
    envoy.drop(CLUSTER_TYPE, ["*"]);
    expect(envoy.take()).toEqual([]);
  });

  it("rule 21: dropping what is not held does nothing, and dropping everything is no wildcard", () => {
    const state = world(CLUSTER_TYPE, ["a", "b"]);
    const envoy = connected(state);
    envoy.ask(CLUSTER_TYPE, ["a"]);
    envoy.acceptAll();
    envoy.drop(CLUSTER_TYPE, ["b", "*", "no such"]);
    envoy.drop(CLUSTER_TYPE, ["a"]);
    envoy.ask(CLUSTER_TYPE);
    envoy.session.setTarget(state.set(CLUSTER_TYPE, ["a", "b"], "v2").snapshot(), 0);
    expect(envoy.take()).toEqual([]);
  });

  it("rules 22, 25: every name of a request is answered, held or not, and once", () => {
    const envoy = connected(world(CLUSTER_TYPE, ["a"]));
    envoy.ask(CLUSTER_TYPE, ["a", "*", "a"]);
    expect(envoy.acceptAll()).toEqual(["CDS +a"]);
    envoy.ask(CLUSTER_TYPE, ["a", "a"]);
    expect(envoy.acceptAll()).toEqual(["CDS +a"]);
  });
});

describe("content", () => {
  it("rule 28: a first wildcard is answered even when there is nothing", () => {
    const envoy = connected(new World());
    envoy.ask(CLUSTER_TYPE);
    expect(envoy.take()).toEqual(["CDS"]);
  });

  it("rule 30: a new stream gets what changed and what is gone, and an answer to what it holds and names", () => {
    const before = world(CLUSTER_TYPE, ["a", "b", "c"]).snapshot();
    const held = Object.fromEntries([...before.byType[CLUSTER_TYPE]].map(([name, { version }]) => [name, version]));
    const envoy = new Envoy(new NodeRecord("envoy-1"), { ...DELTA_ADS, isAlone: true });
    envoy.session.setTarget(world(CLUSTER_TYPE, ["a"]).set(CLUSTER_TYPE, ["c"], "v2").snapshot(), 0);
    envoy.ask(CLUSTER_TYPE, [], held);
    expect(envoy.take()).toEqual(["CDS -b +c"]);
  });

  it("rules 31, 32: filters are never removed; endpoints, route tables and secrets leave with what names them", () => {
    const state = world(EXTENSION_TYPE, ["f"]).set(ENDPOINT_TYPE, ["a"], "v1").set(ROUTE_TYPE, ["r"], "v1");
    state.set(SECRET_TYPE, ["s"], "v1");
    const envoy = connected(state);
    envoy.ask(CLUSTER_TYPE);
    envoy.ask(LISTENER_TYPE);
    envoy.ask(ENDPOINT_TYPE, ["a"]);
    envoy.ask(ROUTE_TYPE, ["r"]);
    envoy.ask(EXTENSION_TYPE, ["f"]);
    envoy.ask(SECRET_TYPE, ["s"]);
    envoy.acceptAll();
    envoy.session.setTarget(new World().snapshot(), 0);
    expect(envoy.take()).toEqual([]);
    expect(envoy.session.unsettledTypes()).toEqual([]);
  });
});
