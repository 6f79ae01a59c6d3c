import { describe, expect, it } from "vitest";
import type { GateTools } from "./gate-compiler.js";
import { GroupPipeline } from "./group-pipeline.js";
import type { GatewayPlan } from "./plan/mesh-plan.js";
import { planMesh } from "./plan/plan.js";
import { rankerFixture, type StateFixture, stateOf, withWeights } from "./plan/state-fixture.js";
import { CLUSTER_TYPE, EXTENSION_TYPE, LISTENER_TYPE, ROUTE_TYPE } from "./snapshot/resource-types.js";
import { type SharedTranslation, translateShared } from "./translate/translate.js";

const GATEWAYS = [
  { name: "all", httpPort: 8080 },
  { name: "lite", httpPort: 8081, labels: { team: "lite" }, models: ["ranker-lite"] },
];
const fixture: StateFixture = { ...rankerFixture(), gateways: GATEWAYS };
const settings = { transcoderDescriptor: Buffer.from("descriptors") };

class Mesh {
  compiled: string[] = [];
  readonly #tools: GateTools = {
    module: Buffer.from("\0asm"),
    compile: ({ models }) => {
      const names = models.map(({ name }) => name).join();
      this.compiled.push(names);
      return Buffer.from(names);
    },
    dryRun: (config) => (Buffer.from(config).includes("bad") ? "it traps" : undefined),
  };
  readonly all = new GroupPipeline(this.#tools);
  readonly lite = new GroupPipeline(this.#tools);
  #shared: SharedTranslation | undefined;

  apply(state: StateFixture) {
    const plan = planMesh(stateOf(state), this.#shared?.plan);
    const shared = { plan, trustDomain: undefined, resources: translateShared(plan, undefined, this.#shared) };
    this.#shared = shared;
    const [all, lite] = plan.gateways as [GatewayPlan, GatewayPlan];
    return {
      all: this.all.apply(shared, all, settings),
      lite: this.lite.apply(shared, lite, settings),
    };
  }
}

describe("the snapshot of a group", () => {
  it("has its own listeners and gate, and of the mesh what is in its scope", () => {
    const mesh = new Mesh();
    mesh.apply(fixture);
    const [all, lite] = [mesh.all.snapshot, mesh.lite.snapshot];
    expect([...(lite?.byType[ROUTE_TYPE].keys() ?? [])].sort()).toEqual(["routes/_server", "routes/ranker-lite"]);
    expect([...(lite?.byType[CLUSTER_TYPE].keys() ?? [])].sort()).toEqual(["_server", "model/ranker-lite/1"]);
    expect(all?.byType[CLUSTER_TYPE].has("model/ranker/41")).toBe(true);
    expect(mesh.compiled).toEqual(["ranker,ranker-lite", "ranker-lite"]);
    const versionOf = (type: typeof LISTENER_TYPE | typeof EXTENSION_TYPE, name: string) =>
      [all, lite].map((snapshot) => snapshot?.byType[type].get(name)?.version);
    expect(new Set(versionOf(LISTENER_TYPE, "gateway")).size).toBe(2);
    expect(new Set(versionOf(EXTENSION_TYPE, "gate")).size).toBe(2);
  });

  it("shares the encoded resources with the other groups", () => {
    const mesh = new Mesh();
    mesh.apply(fixture);
    const [all, lite] = [mesh.all.snapshot, mesh.lite.snapshot].map((snapshot) =>
      snapshot?.byType[CLUSTER_TYPE].get("model/ranker-lite/1"),
    );
    expect(lite).toBeDefined();
    expect(all).toBe(lite);
  });

  it("is the same object after a change outside its scope", () => {
    const mesh = new Mesh();
    mesh.apply(fixture);
    const [all, lite] = [mesh.all.snapshot, mesh.lite.snapshot];
    mesh.apply(withWeights(fixture, 90, 10));
    expect([mesh.all.snapshot === all, mesh.lite.snapshot === lite]).toEqual([false, true]);
    expect(mesh.compiled, "weights are not the gate's").toHaveLength(2);
  });

  it("keeps its gate when a newer one does not start, while another group takes its own", () => {
    const mesh = new Mesh();
    mesh.apply(fixture);
    const before = mesh.all.snapshot?.byType[EXTENSION_TYPE].get("gate")?.version;
    const lite = mesh.lite.snapshot;
    const more = { ...fixture, models: [...(fixture.models ?? []), { name: "bad", allowedTenants: ["*"] }] };
    const findings = mesh.apply(more);
    expect(findings.all.map(({ subject, severity }) => [subject, severity])).toContainEqual(["gate", "error"]);
    expect(findings.lite).toEqual([]);
    expect(mesh.all.snapshot?.byType[EXTENSION_TYPE].get("gate")?.version).toBe(before);
    expect(mesh.lite.snapshot).toBe(lite);
  });
});
