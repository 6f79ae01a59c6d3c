import { Replica, ReplicaState } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { describe, expect, it } from "vitest";
import { formatKey } from "./keys.js";
import { formatRecord } from "./records.js";
import { modelRecord } from "./registry-fixture.js";
import { RegistryView } from "./registry-view.js";
import type { StoreItem, WatchEvent } from "./store.js";

function modelItem(name: string, modRevision: bigint): StoreItem {
  const value = formatRecord(modelRecord(name));
  return { key: formatKey({ kind: "model", model: name }), value, createRevision: 1n, modRevision };
}

function replicaItem(version: bigint, id: string, modRevision: bigint): StoreItem {
  const state = ReplicaState.REPLICA_STATE_READY;
  const value = Replica.fromPartial({ model: "ranker", version, id, address: "127.0.0.1:9000", state });
  const key = formatKey({ kind: "replica", model: "ranker", version, id });
  return { key, value: formatRecord({ kind: "replica", value }), createRevision: 1n, modRevision };
}

function put(item: StoreItem): WatchEvent {
  return { kind: "put", item };
}

describe("RegistryView", () => {
  it("shares with the state before what was not touched", () => {
    const view = new RegistryView();
    view.load({ revision: 1n, items: [modelItem("a", 1n), modelItem("b", 1n), replicaItem(41n, "r1", 1n)] });
    const before = view.state;
    view.apply({ revision: 2n, events: [put(modelItem("b", 2n))] });
    const after = view.state;
    expect(after.models.get("a")).toBe(before.models.get("a"));
    expect(after.models.get("b")).not.toBe(before.models.get("b"));
    expect(before.models.get("b")?.modRevision).toBe(1n);
    for (const kind of ["versions", "stages", "aliases", "tenants", "replicas", "gateways"] as const) {
      expect(after[kind]).toBe(before[kind]);
    }
  });

  it("gives a replica id to the record that was written last, and back when that one goes", () => {
    const view = new RegistryView();
    const older = replicaItem(41n, "r1", 1n);
    const newer = replicaItem(42n, "r1", 2n);
    view.load({ revision: 2n, items: [older, newer] });
    expect(view.state.replicas.get("r1")?.value.version).toBe(42n);
    expect(view.state.findings.map(({ subject }) => subject)).toEqual([older.key]);
    view.apply({ revision: 3n, events: [put(modelItem("a", 3n))] });
    expect(view.state.findings).toHaveLength(1);
    view.apply({ revision: 4n, events: [{ kind: "delete", key: newer.key }] });
    expect(view.state.replicas.get("r1")?.value.version).toBe(41n);
    expect(view.state.findings).toEqual([]);
    view.apply({ revision: 5n, events: [{ kind: "delete", key: older.key }] });
    expect(view.state.replicas.size).toBe(0);
  });
});
