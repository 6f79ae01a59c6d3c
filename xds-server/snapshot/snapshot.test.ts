import { describe, expect, it } from "vitest";
import { planMesh } from "../plan/plan.js";
import { rankerFixture, type StateFixture, stateOf, withWeights } from "../plan/state-fixture.js";
import type { MeshResources } from "../translate/translate.js";
import { translate } from "../translate/translate-fixture.js";
import { emptyRouteTable } from "./resource.js";
import { CLUSTER_TYPE, DELIVERY_ORDER, ENDPOINT_TYPE, ROUTE_TYPE } from "./resource-types.js";
import { buildSnapshot, diffType, inconsistencies } from "./snapshot.js";

function resourcesOf(fixture: StateFixture): MeshResources {
  return translate(planMesh(stateOf(fixture)), {
    gate: { module: Buffer.from("\0asm"), config: Buffer.from("config") },
    transcoderDescriptor: Buffer.from("descriptors"),
  });
}

function changed(before: StateFixture, after: StateFixture): string[] {
  const from = buildSnapshot(resourcesOf(before));
  const to = buildSnapshot(resourcesOf(after), from);
  return DELIVERY_ORDER.flatMap((type) => {
    const diff = diffType(from, to, type);
    return [...diff.changed.map((resource) => resource.name), ...diff.removed.map((name) => `-${name}`)];
  });
}

const ranker = rankerFixture();

describe("buildSnapshot", () => {
  it("gives equal content equal versions, and shares what did not change", () => {
    const first = buildSnapshot(resourcesOf(ranker));
    const second = buildSnapshot(resourcesOf(ranker), first);
    expect(second.typeVersions).toEqual(first.typeVersions);
    for (const type of DELIVERY_ORDER) {
      for (const [name, resource] of second.byType[type]) expect(resource).toBe(first.byType[type].get(name));
    }
  });

  it("is the snapshot before when nothing changed, and shares the types that did not", () => {
    const first = buildSnapshot(resourcesOf(ranker));
    expect(buildSnapshot(resourcesOf(ranker), first)).toBe(first);
    const second = buildSnapshot(resourcesOf(withWeights(ranker, 90, 10)), first);
    const changedTypes = DELIVERY_ORDER.filter((type) => second.byType[type] !== first.byType[type]);
    expect(changedTypes).toEqual([ROUTE_TYPE]);
    expect(DELIVERY_ORDER.filter((type) => second.typeVersions[type] !== first.typeVersions[type])).toEqual([
      ROUTE_TYPE,
    ]);
  });

  it("gives a type a version that two contents under swapped names do not share", () => {
    const resources = resourcesOf(ranker);
    const [first, second] = resources.clusters;
    if (first === undefined || second === undefined) throw new Error("the fixture has two clusters");
    const swapped = [
      { ...second, name: first.name },
      { ...first, name: second.name },
    ];
    const { typeVersions } = buildSnapshot({ ...resources, clusters: [...swapped, ...resources.clusters.slice(2)] });
    expect(typeVersions[CLUSTER_TYPE]).not.toBe(buildSnapshot(resources).typeVersions[CLUSTER_TYPE]);
    const reversed = buildSnapshot({ ...resources, clusters: [...resources.clusters].reverse() });
    expect(reversed.typeVersions).toEqual(buildSnapshot(resources).typeVersions);
    expect([...reversed.byType[CLUSTER_TYPE].keys()]).toEqual([...reversed.byType[CLUSTER_TYPE].keys()].sort());
  });

  it("changes one route table for a weight", () => {
    const [alias, ...others] = ranker.aliases ?? [];
    const split = [
      { version: 41n, weight: 90 },
      { version: 42n, weight: 10 },
    ];
    expect(changed(ranker, { ...ranker, aliases: [{ ...alias, split }, ...others] })).toEqual(["routes/ranker"]);
  });

  it("changes one endpoint list and the server's for a replica", () => {
    const ready = { ...ranker.ready, "ranker:41": ["127.0.0.1:19000"] };
    expect(changed(ranker, { ...ranker, ready })).toEqual(["_server", "model/ranker/41"]);
  });

  it("reports names that are given twice and keeps the first", () => {
    const resources = resourcesOf(ranker);
    const snapshot = buildSnapshot({
      ...resources,
      clusters: [...resources.clusters, ...resources.clusters.slice(0, 1)],
    });
    expect(snapshot.byType[CLUSTER_TYPE].size).toBe(resources.clusters.length);
    expect(inconsistencies(snapshot)[0]).toMatch(/is listed twice$/);
  });
});

describe("inconsistencies", () => {
  it("finds nothing wrong with what translate makes", () => {
    expect(inconsistencies(buildSnapshot(resourcesOf(ranker)))).toEqual([]);
  });

  it("finds routes to clusters that do not exist, behind the priority groups too", () => {
    const resources = resourcesOf(ranker);
    const clusters = resources.clusters.filter((cluster) => cluster.name !== "model/ranker-lite/1");
    const endpoints = resources.endpoints.filter((list) => list.clusterName !== "model/ranker-lite/1");
    expect(inconsistencies(buildSnapshot({ ...resources, clusters, endpoints }))).toEqual([
      "routes/ranker names cluster model/ranker-lite/1, which does not exist",
      "routes/ranker-lite names cluster model/ranker-lite/1, which does not exist",
    ]);
  });

  it("finds scopes without a table and endpoint lists without a cluster", () => {
    const resources = resourcesOf(ranker);
    const routes = resources.routes.filter((table) => table.name !== "routes/ranker");
    expect(inconsistencies(buildSnapshot({ ...resources, routes }))).toEqual([
      "ranker names route table routes/ranker, which does not exist",
    ]);
    const clusters = resources.clusters.filter((cluster) => cluster.name !== "model/ranker/43");
    expect(inconsistencies(buildSnapshot({ ...resources, clusters }))).toEqual([
      "routes/ranker names cluster model/ranker/43, which does not exist",
      "endpoint list model/ranker/43 belongs to no cluster",
    ]);
  });
});

describe("resources", () => {
  it("knows an empty endpoint list and an empty table", () => {
    const lists = buildSnapshot(resourcesOf({ ...ranker, ready: {} })).byType[ENDPOINT_TYPE];
    expect([...lists.values()].every((list) => list.isEmpty)).toBe(true);
    expect(emptyRouteTable("routes/x")).toMatchObject({ name: "routes/x", needs: [] });
  });
});
