import { describe, expect, it } from "vitest";
import { planMesh } from "../plan/plan.js";
import { rankerFixture, STAGE_PRODUCTION, stateOf } from "../plan/state-fixture.js";
import { buildSnapshot, inconsistencies } from "../snapshot/snapshot.js";
import { withinScope } from "./scope.js";
import { translateShared } from "./translate.js";

const fixture = rankerFixture();
const plan = planMesh(
  stateOf({
    ...fixture,
    models: [...(fixture.models ?? []), { name: "echo", allowedTenants: ["*"] }],
    versions: { ...fixture.versions, "echo:1": STAGE_PRODUCTION },
    aliases: [...(fixture.aliases ?? []), { model: "echo", alias: "prod", split: [{ version: 1n, weight: 1 }] }],
    ready: { ...fixture.ready, "echo:1": ["127.0.0.1:19050"] },
  }),
);
const shared = translateShared(plan, undefined);

function scoped(...models: string[]) {
  const resources = withinScope(shared, plan, models);
  return {
    resources,
    scopes: resources.scopes.map(({ name }) => name).sort(),
    routes: resources.routes.map(({ name }) => name).sort(),
    clusters: resources.clusters.map(({ name }) => name),
    endpoints: resources.endpoints.map(({ clusterName }) => clusterName),
  };
}

describe("a group with some models", () => {
  it("learns of their routes, their versions and the clusters of others that they fall back on", () => {
    const ranker = scoped("ranker");
    expect(ranker.scopes).toEqual(["_server", "ranker"]);
    expect(ranker.routes).toEqual(["routes/_server", "routes/ranker"]);
    expect([...ranker.clusters].sort()).toEqual([
      "_server",
      "model/ranker-lite/1",
      "model/ranker/41",
      "model/ranker/42",
      "model/ranker/43",
    ]);
    expect([...ranker.endpoints].sort()).toEqual([...ranker.clusters].sort());
  });

  it("learns of nothing but server-level calls when its models are not registered", () => {
    expect(scoped("other")).toMatchObject({ scopes: ["_server"], clusters: ["_server"] });
  });

  it.each([[["ranker"]], [["ranker-lite"]], [["echo", "ranker"]], [["other"]]])("is consistent with %j", (models) => {
    const { resources } = scoped(...models);
    const snapshot = buildSnapshot({ ...resources, listeners: [], extensions: [] });
    expect(inconsistencies(snapshot)).toEqual([]);
  });

  it("shares the messages with all other groups", () => {
    const { resources } = scoped("ranker");
    for (const route of resources.routes) expect(shared.routes).toContain(route);
    for (const cluster of resources.clusters) expect(shared.clusters).toContain(cluster);
  });
});
