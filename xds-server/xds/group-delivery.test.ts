import { DeltaDiscoveryResponse } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { describe, expect, it } from "vitest";
import { CLUSTER_TYPE, EXTENSION_TYPE, LISTENER_TYPE, type ResourceType } from "../snapshot/resource-types.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import { GroupDelivery } from "./group-delivery.js";
import { nameAndRevision, World } from "./world-fixture.js";

const FIRST = new World().set(LISTENER_TYPE, ["gateway"], "a").set(CLUSTER_TYPE, ["x", "y"], "a").snapshot();

/** The group `edge` in which `one` tries for the others, and all have `FIRST`. */
function edge(): GroupDelivery {
  const delivery = new GroupDelivery("edge", () => "one");
  delivery.publish(FIRST, 0);
  return delivery;
}

/** What an Envoy shall hold of a type. */
function held(delivery: GroupDelivery, nodeId: string, type: ResourceType): string[] {
  const resources = delivery.targetFor(nodeId)?.byType[type] ?? new Map();
  return [...resources.values()]
    .map(({ deltaChunk }) => DeltaDiscoveryResponse.decode(deltaChunk).resources[0]?.resource?.value ?? Buffer.alloc(0))
    .map((value) => nameAndRevision(type, value))
    .sort();
}

function world(listener: string, clusters: readonly string[], revision: string): Snapshot {
  return new World().set(LISTENER_TYPE, ["gateway"], listener).set(CLUSTER_TYPE, clusters, revision).snapshot();
}

describe("a group of Envoys", () => {
  it("has no target before the first state, and gives the first to all", () => {
    expect(new GroupDelivery("edge", () => "one").targetFor("one")).toBeUndefined();
    expect([edge().targetFor("one"), edge().targetFor("two"), edge().deadlineMs]).toEqual([FIRST, FIRST, undefined]);
  });

  it("gives a changed cluster to all at once", () => {
    const delivery = edge();
    const next = world("a", ["x", "y"], "b");
    delivery.publish(next, 10);
    expect([delivery.targetFor("one"), delivery.targetFor("two")]).toEqual([next, next]);
  });

  it("gives a changed listener to one, and what comes with it to all", () => {
    const delivery = edge();
    delivery.publish(world("b", ["x", "y"], "b"), 10);
    expect([held(delivery, "one", LISTENER_TYPE), held(delivery, "two", LISTENER_TYPE)]).toEqual([
      ["gateway@b"],
      ["gateway@a"],
    ]);
    expect(held(delivery, "two", CLUSTER_TYPE)).toEqual(["x@b", "y@b"]);
    expect([delivery.triedBy("one"), delivery.triedBy("two")]).toEqual([[LISTENER_TYPE], []]);
    delivery.accepted("one", LISTENER_TYPE);
    expect(held(delivery, "two", LISTENER_TYPE)).toEqual(["gateway@b"]);
  });

  it("takes nothing from those that keep the old listener while it may lead there", () => {
    const delivery = edge();
    delivery.publish(world("b", ["x"], "b"), 10);
    expect([held(delivery, "one", CLUSTER_TYPE), held(delivery, "two", CLUSTER_TYPE)]).toEqual([
      ["x@b"],
      ["x@b", "y@a"],
    ]);
    const version = delivery.targetFor("two")?.typeVersions[CLUSTER_TYPE];
    expect(version).not.toBe(delivery.targetFor("one")?.typeVersions[CLUSTER_TYPE]);
    expect(delivery.recall(CLUSTER_TYPE, version ?? "")?.has("y")).toBe(true);
    delivery.publish(world("b", [], "c"), 20);
    expect(held(delivery, "two", CLUSTER_TYPE), "what was there when the trial began").toEqual(["x@a", "y@a"]);
    delivery.accepted("one", LISTENER_TYPE);
    expect(held(delivery, "two", CLUSTER_TYPE)).toEqual([]);
  });

  it("gives the same state to all that wait for the same", () => {
    const delivery = edge();
    delivery.publish(world("b", ["x"], "b"), 10);
    expect(delivery.targetFor("two")).toBe(delivery.targetFor("three"));
  });

  it("holds back a listener and a filter apart from each other", () => {
    const delivery = new GroupDelivery("edge", (type) => (type === LISTENER_TYPE ? "one" : "two"));
    const both = (listener: string, gate: string): Snapshot =>
      new World().set(LISTENER_TYPE, ["gateway"], listener).set(EXTENSION_TYPE, ["gate"], gate).snapshot();
    delivery.publish(both("a", "a"), 0);
    delivery.publish(both("b", "b"), 10);
    const of = (nodeId: string): string[] => [
      ...held(delivery, nodeId, LISTENER_TYPE),
      ...held(delivery, nodeId, EXTENSION_TYPE),
    ];
    expect([of("one"), of("two"), of("three")]).toEqual([
      ["gateway@b", "gate@a"],
      ["gateway@a", "gate@b"],
      ["gateway@a", "gate@a"],
    ]);
    delivery.accepted("two", EXTENSION_TYPE);
    expect([of("one"), of("two"), of("three")]).toEqual([
      ["gateway@b", "gate@b"],
      ["gateway@a", "gate@b"],
      ["gateway@a", "gate@b"],
    ]);
  });

  it("says who refused what, and in which words, until the content changes", () => {
    const delivery = edge();
    delivery.publish(world("b", ["x", "y"], "a"), 10);
    delivery.refused("two", LISTENER_TYPE, ["gateway"], "not the one that tries");
    expect(delivery.findings()).toEqual([]);
    delivery.refused("one", LISTENER_TYPE, ["gateway"], "address in use");
    expect(delivery.findings()).toEqual([
      {
        severity: "error",
        subject: "gateway",
        message: 'was given to no other gateway of "edge", because one refused this Listener; it says: address in use',
      },
    ]);
    expect([delivery.deadlineMs, delivery.involves("one"), delivery.triedBy("one")]).toEqual([undefined, true, []]);
    delivery.publish(world("a", ["x", "y"], "a"), 20);
    expect([delivery.findings(), held(delivery, "two", LISTENER_TYPE)]).toEqual([[], ["gateway@a"]]);
  });

  it("lets one that has just started try what another refused", () => {
    const delivery = edge();
    delivery.publish(world("b", ["x", "y"], "a"), 10);
    delivery.refused("one", LISTENER_TYPE, ["gateway"], "address in use");
    delivery.started("two", 20);
    expect([held(delivery, "two", LISTENER_TYPE), delivery.findings()]).toEqual([["gateway@b"], []]);
  });

  it("chooses another one when the one that tries leaves, and releases when time is up", () => {
    let first = "one";
    const delivery = new GroupDelivery("edge", () => first);
    delivery.publish(FIRST, 0);
    delivery.publish(world("b", ["x", "y"], "a"), 10);
    first = "two";
    delivery.left("one", 500);
    expect([delivery.triedBy("two"), delivery.deadlineMs]).toEqual([[LISTENER_TYPE], 2_500]);
    delivery.expire(2_500);
    expect(held(delivery, "three", LISTENER_TYPE)).toEqual(["gateway@b"]);
  });
});
