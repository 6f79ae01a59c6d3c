import { Replica, ReplicaState } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { describe, expect, it } from "vitest";
import { LayeredMap } from "../platform/layered-map.js";
import type { RegistryState } from "../registry/state.js";
import type { MeshPlan } from "./mesh-plan.js";
import { planMesh } from "./plan.js";
import { SERVER_ENDPOINTS_MAX } from "./server-endpoints.js";
import { rankerFixture, STAGE_PRODUCTION, type StateFixture, stateOf, withEcho, withWeights } from "./state-fixture.js";

const fixture = withEcho(rankerFixture(), "127.0.0.1:19050");
const state = stateOf(fixture);
const plan = planMesh(state);

/** The same state, in which only one record's map has other entries, as the registry makes it. */
function withReplica(before: RegistryState, fields: Partial<Replica> & { readonly id: string }): RegistryState {
  const known = before.replicas.get(fields.id)?.value;
  const value = Replica.fromPartial({ state: ReplicaState.REPLICA_STATE_READY, ...known, ...fields });
  return { ...before, replicas: LayeredMap.over(before.replicas).with([[fields.id, { value, modRevision: 2n }]]) };
}

function changedModels(before: MeshPlan, after: MeshPlan): string[] {
  return after.models.filter((model) => !before.models.includes(model)).map(({ model }) => model);
}

function changedClusters(before: MeshPlan, after: MeshPlan): string[] {
  return after.clusters.filter((cluster) => !before.clusters.includes(cluster)).map(({ name }) => name);
}

describe("planMesh with the plan before", () => {
  it("gives that plan itself when nothing changed, whatever objects the state is made of", () => {
    expect(planMesh(state, plan)).toBe(plan);
    expect(planMesh(stateOf(fixture), plan)).toBe(plan);
    expect(planMesh({ ...state, revision: 2n }, plan)).toBe(plan);
  });

  it("plans one model anew for a weight, and leaves clusters, server and gate alone", () => {
    const next = planMesh(stateOf(withWeights(fixture, 90, 10)), plan);
    expect(changedModels(plan, next)).toEqual(["ranker"]);
    expect(next.clusters).toBe(plan.clusters);
    expect(next.server).toBe(plan.server);
    expect(next.gate).toBe(plan.gate);
    expect(next.gateways).toBe(plan.gateways);
  });

  it("changes one cluster when one of two replicas goes, and no route", () => {
    const draining = withReplica(state, { id: "ranker-41-0", state: ReplicaState.REPLICA_STATE_DRAINING });
    const next = planMesh(draining, plan);
    expect(next.models).toBe(plan.models);
    expect(changedClusters(plan, next)).toEqual(["model/ranker/41"]);
    expect(next.gate).toBe(plan.gate);
  });

  it("plans the models anew that fall back on a version whose last replica goes", () => {
    const draining = withReplica(state, { id: "ranker-lite-1-0", state: ReplicaState.REPLICA_STATE_DRAINING });
    const next = planMesh(draining, plan);
    expect(changedModels(plan, next)).toEqual(["ranker", "ranker-lite"]);
    expect(changedClusters(plan, next)).toEqual(["model/ranker-lite/1"]);
  });

  it("follows a replica that serves another version now", () => {
    const next = planMesh(withReplica(state, { id: "ranker-41-0", version: 42n }), plan);
    expect(changedClusters(plan, next)).toEqual(["model/ranker/41", "model/ranker/42"]);
    expect(next.server).toBe(plan.server);
  });

  it("lets go of an unreadable model when its record turns out to be gone", () => {
    const models = (fixture.models ?? []).filter(({ name }) => name !== "echo");
    const finding = { severity: "error", subject: "models/echo", message: "is not JSON" } as const;
    const unreadable = stateOf({ ...fixture, models, findings: [finding] });
    const kept = planMesh(unreadable, plan);
    expect(kept.models).toBe(plan.models);
    const gone = planMesh({ ...unreadable, findings: [] }, kept);
    expect(gone.models.map(({ model }) => model)).toEqual(["ranker", "ranker-lite"]);
    expect(gone.gate.models.map(({ name }) => name)).toEqual(["ranker", "ranker-lite"]);
  });

  it("tells the gate of tenants and of nothing else when only a tenant changed", () => {
    const tenants = [{ name: "acme", keys: [{ id: "k1", sha256: Buffer.alloc(32, 7) }], models: ["ranker"] }];
    const next = planMesh({ ...state, tenants: stateOf({ ...fixture, tenants }).tenants }, plan);
    expect(next.gate.tenants).toMatchObject([{ name: "acme", models: ["ranker"] }]);
    expect(next.gate.models).toBe(plan.gate.models);
    expect(next.models).toBe(plan.models);
  });

  it("starts over from a copy of a plan, with the same result", () => {
    const weights = stateOf(withWeights(fixture, 90, 10));
    expect(planMesh(weights, { ...plan })).toEqual(planMesh(weights, plan));
  });
});

describe("endpoints for server-level calls", () => {
  const many = SERVER_ENDPOINTS_MAX * 2;
  const addresses = Array.from({ length: many }, (_, index) => `10.0.${index >> 7}.${index & 127}:9000`);
  const large: StateFixture = {
    models: [{ name: "echo" }],
    versions: { "echo:1": STAGE_PRODUCTION },
    ready: { "echo:1": addresses },
  };

  it("are a few of many, the same ones on every control plane", () => {
    const { server } = planMesh(stateOf(large));
    expect(server).toHaveLength(SERVER_ENDPOINTS_MAX);
    const reversed = planMesh(stateOf({ ...large, ready: { "echo:1": [...addresses].reverse() } }));
    expect(reversed.server).toEqual(server);
  });

  it("stay as replicas come and go elsewhere, and another takes the place of one that goes", () => {
    let before = stateOf(large);
    let known = planMesh(before);
    let changes = 0;
    for (let index = 0; index < many; index++) {
      const id = `echo-1-${index}`;
      const address = addresses[index] ?? "";
      const wasChosen = known.server.some(({ ip, port }) => `${ip}:${port}` === address);
      before = withReplica(before, { id, state: ReplicaState.REPLICA_STATE_DRAINING });
      const next = planMesh(before, known);
      expect(next.server !== known.server).toBe(wasChosen);
      expect(next.server).toEqual(planMesh(before).server);
      if (wasChosen) changes += 1;
      known = next;
    }
    expect(changes).toBeGreaterThanOrEqual(SERVER_ENDPOINTS_MAX);
    expect(known.server).toEqual([]);
  });
});
