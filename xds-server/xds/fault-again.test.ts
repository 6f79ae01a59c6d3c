import { expect, it } from "vitest";
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
import { Envoy } from "./hand-driven-envoy-fixture.js";
import { contentsOf, SotwEnvoy } from "./hand-driven-sotw-fixture.js";
import { World } from "./world-fixture.js";

/** Faults that other xDS servers had with names that are asked for again, or after what named them has gone. */

const world = (type: ResourceType, names: readonly string[], revision = "v1"): World =>
  new World().set(type, names, revision);

it.each([CLUSTER_TYPE, ENDPOINT_TYPE, SECRET_TYPE, LISTENER_TYPE, ROUTE_TYPE, EXTENSION_TYPE] as const)(
  "fault 2 (gcp#399, gcp#608): one more name of %s is answered at a version that was accepted",
  (type) => {
    const client = new SotwEnvoy();
    client.publish(world(type, ["a", "b"]).snapshot());
    client.start(type, ["a"]);
    const first = client.last(type);
    client.ack(first);
    client.take();
    client.rename(type, ["a", "b"], first?.nonce ?? "");
    expect(client.last(type)?.items.map(({ name }) => name)).toEqual(["b"]);
  },
);

it("fault 3 (gcp#431, gcp#583): endpoints of a cluster that went and came back are answered at an unchanged version", () => {
  const both = world(CLUSTER_TYPE, ["a", "b"]).set(ENDPOINT_TYPE, ["a", "b"], "v1").snapshot();
  const one = world(CLUSTER_TYPE, ["b"]).set(ENDPOINT_TYPE, ["b"], "v1").snapshot();
  const client = new SotwEnvoy();
  client.publish(both);
  client.start(CLUSTER_TYPE);
  client.start(ENDPOINT_TYPE, ["a", "b"]);
  // The endpoints do not change, so this stays the nonce of their last response.
  const endpointNonce = client.last(ENDPOINT_TYPE)?.nonce ?? "";
  client.acceptAll();
  client.publish(one);
  expect(contentsOf(client.last(CLUSTER_TYPE))).toEqual(["b"]);
  client.acceptAll();
  client.rename(ENDPOINT_TYPE, ["b"], endpointNonce);
  client.publish(both);
  expect(client.acceptAll()).toEqual(["CDS +a"]);
  client.rename(ENDPOINT_TYPE, ["a", "b"], endpointNonce);
  expect(client.acceptAll()).toEqual(["EDS +a"]);
});

it("fault 4 (gcp#1450): a name that was delivered is sent again when delta subscribes to it again, beside `*` too", () => {
  for (const isWildcard of [false, true]) {
    const client = new Envoy();
    client.session.setTarget(world(CLUSTER_TYPE, ["a", "b"]).snapshot(), 0);
    client.ask(CLUSTER_TYPE, isWildcard ? ["*"] : ["a", "b"]);
    expect(client.acceptAll()).toEqual(["CDS +a +b"]);
    client.ask(CLUSTER_TYPE, ["a"]);
    expect(client.acceptAll()).toEqual(["CDS +a"]);
  }
});

it("fault 9 (gcp#63, gcp#119, kuma#11602, kuma#12098): some of the names are answered, also while the state grows", () => {
  const client = new SotwEnvoy();
  client.publish(world(ENDPOINT_TYPE, ["a", "b", "c"]).snapshot());
  client.start(ENDPOINT_TYPE, ["b", "static"]);
  client.publish(world(ENDPOINT_TYPE, ["a", "b", "c", "d", "e"]).snapshot());
  expect(client.acceptAll()).toEqual(["EDS +b"]);
});

const NAMED_ANSWERS = ["EDS +kept", "RDS +kept", "ECDS +kept"];

it("fault 31 (envoy#17980, envoy#18292): names whose parents are gone get an answer that does no harm", () => {
  const state = new World();
  for (const type of [CLUSTER_TYPE, ENDPOINT_TYPE, ROUTE_TYPE, EXTENSION_TYPE] as const)
    state.set(type, ["kept"], "v1");
  const held = { gone: "old", kept: "old" };
  const delta = new Envoy();
  delta.session.setTarget(state.snapshot(), 0);
  for (const type of [CLUSTER_TYPE, LISTENER_TYPE, SCOPE_TYPE] as const) delta.ask(type, [], held);
  for (const type of [ENDPOINT_TYPE, ROUTE_TYPE, EXTENSION_TYPE] as const) delta.ask(type, ["gone", "kept"], held);
  // No empty table and no empty endpoints, which calls on their last connections would still meet.
  expect(delta.acceptAll().filter((line) => !/^(LDS|SRDS)/.test(line))).toEqual(["CDS +kept", ...NAMED_ANSWERS]);
  // Envoy drops the routes with their scope, and the endpoints with their cluster.
  delta.drop(ROUTE_TYPE, ["gone"]);
  expect(delta.acceptAll()).toEqual(["CDS -gone"]);
  delta.drop(ENDPOINT_TYPE, ["gone"]);
  expect(delta.acceptAll()).toEqual([]);
  const sotw = new SotwEnvoy();
  sotw.publish(state.snapshot());
  for (const type of [CLUSTER_TYPE, LISTENER_TYPE, SCOPE_TYPE] as const) sotw.start(type, [], "old");
  for (const type of [ENDPOINT_TYPE, ROUTE_TYPE, EXTENSION_TYPE] as const) sotw.start(type, ["gone", "kept"], "old");
  expect(sotw.acceptAll()).toEqual(["CDS +kept", "LDS", "SRDS", ...NAMED_ANSWERS]);
  for (const { session } of [delta, sotw]) expect(session.unsettledTypes()).toEqual([]);
});
