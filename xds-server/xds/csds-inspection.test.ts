import { describe, expect, it } from "vitest";
import { planMesh } from "../plan/plan.js";
import { rankerFixture, type StateFixture, stateOf, withEcho, withWeights } from "../plan/state-fixture.js";
import { CLUSTER_TYPE, EXTENSION_TYPE, LISTENER_TYPE, ROUTE_TYPE } from "../snapshot/resource-types.js";
import { buildSnapshot, type Snapshot } from "../snapshot/snapshot.js";
import { translate } from "../translate/translate-fixture.js";
import type { ResourceInspection } from "./csds-inspection.js";
import { Envoy } from "./hand-driven-envoy-fixture.js";

function snapshotOf(fixture: StateFixture): Snapshot {
  const resources = translate(planMesh(stateOf(fixture)), {
    gate: { module: Buffer.from("\0asm"), config: Buffer.from("config") },
    transcoderDescriptor: Buffer.from("descriptors"),
  });
  return buildSnapshot(resources);
}

const ranker = rankerFixture();
const before = snapshotOf(ranker);
const after = snapshotOf(withWeights(ranker, 50, 50));
const versionIn = (snapshot: Snapshot, name: string): string => snapshot.byType[ROUTE_TYPE].get(name)?.version ?? "";

function find(envoy: Envoy, typeUrl: string, name: string): ResourceInspection | undefined {
  const type = envoy.session.inspect().find((one) => one.typeUrl === typeUrl);
  return type?.resources.find((resource) => resource.name === name);
}

/** An Envoy that asks for one route table alone. */
function routesOnly(): Envoy {
  const envoy = new Envoy();
  envoy.ask(ROUTE_TYPE, ["routes/ranker"]);
  return envoy;
}

describe("inspect", () => {
  it("tells pending, under way, acked and refused apart, with the contents that belong to them", () => {
    const envoy = routesOnly();
    const [v1, v2] = [versionIn(before, "routes/ranker"), versionIn(after, "routes/ranker")];
    expect(find(envoy, ROUTE_TYPE, "routes/ranker")).toMatchObject({ state: "absent", version: "", ackedVersion: "" });
    envoy.session.setTarget(before, 0);
    expect(find(envoy, ROUTE_TYPE, "routes/ranker")).toMatchObject({
      state: "under_way",
      version: v1,
      ackedVersion: "",
      underWayVersion: v1,
      resource: { version: v1 },
    });
    envoy.ack(envoy.last(ROUTE_TYPE));
    expect(find(envoy, ROUTE_TYPE, "routes/ranker")).toMatchObject({
      state: "acked",
      version: v1,
      ackedVersion: v1,
      underWayVersion: "",
    });
    envoy.session.setTarget(after, 0);
    expect(find(envoy, ROUTE_TYPE, "routes/ranker")).toMatchObject({
      state: "under_way",
      version: v2,
      ackedVersion: v1,
      underWayVersion: v2,
      resource: { version: v2 },
    });
    envoy.nack(envoy.last(ROUTE_TYPE), "bad weight");
    expect(find(envoy, ROUTE_TYPE, "routes/ranker")).toMatchObject({
      state: "refused",
      version: v2,
      ackedVersion: v1,
      resource: { version: v1 },
      wanted: { version: v2 },
    });
  });

  it("lists what the wildcard brings, with the version of the whole type", () => {
    const envoy = new Envoy();
    envoy.ask(CLUSTER_TYPE);
    envoy.ask(LISTENER_TYPE);
    expect(envoy.session.inspect().map(({ version, resources }) => [version, resources])).toEqual([
      ["", []],
      ["", []],
    ]);
    envoy.session.setTarget(before, 0);
    envoy.acceptAll();
    const [clusters, listeners] = envoy.session.inspect();
    expect(clusters?.version).toBe(before.typeVersions[CLUSTER_TYPE]);
    expect(clusters?.resources.map(({ name }) => name)).toEqual([...before.byType[CLUSTER_TYPE].keys()].sort());
    expect(clusters?.resources.every(({ state }) => state === "acked")).toBe(true);
    expect(listeners?.typeUrl).toBe(LISTENER_TYPE);
  });

  it("shows a removal that waits or is under way, and nothing once it is done", () => {
    const grown = snapshotOf(withEcho(ranker, "127.0.0.1:19050"));
    const envoy = new Envoy();
    envoy.ask(CLUSTER_TYPE);
    envoy.session.setTarget(grown, 0);
    envoy.acceptAll();
    envoy.session.setTarget(before, 0);
    expect(find(envoy, CLUSTER_TYPE, "model/echo/1")).toMatchObject({
      state: "under_way",
      version: "",
      underWayVersion: "",
      wanted: undefined,
    });
    envoy.acceptAll();
    expect(find(envoy, CLUSTER_TYPE, "model/echo/1")).toBeUndefined();
  });

  it("calls a name that does not exist absent", () => {
    const envoy = new Envoy();
    envoy.ask(EXTENSION_TYPE, ["nobody-knows"]);
    envoy.session.setTarget(before, 0);
    expect(find(envoy, EXTENSION_TYPE, "nobody-knows")).toMatchObject({ state: "absent", version: "" });
  });

  it("has no content for a version of a stream before that nobody knows any more", () => {
    const envoy = new Envoy();
    envoy.ask(ROUTE_TYPE, ["routes/ranker"], { "routes/ranker": "an older hash" });
    expect(find(envoy, ROUTE_TYPE, "routes/ranker")).toMatchObject({
      ackedVersion: "an older hash",
      resource: undefined,
    });
  });
});
