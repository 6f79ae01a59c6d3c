import { ReplicaState } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { describe, expect, it } from "vitest";
import { afterProbe, INITIAL_HEALTH } from "../triton/health-policy.js";
import { backoffDelayMs } from "./backoff.js";
import { type ReplicaFacts, replicaState, sameForRouting, sameState } from "./replica-state.js";

const ready = afterProbe(INITIAL_HEALTH, { kind: "ok" });
const unhealthy = afterProbe(ready, { kind: "failed", failure: "unreachable", detail: "gone" });
const facts = (over: Partial<ReplicaFacts>): ReplicaFacts => ({
  draining: false,
  specError: undefined,
  health: ready,
  artifactDigest: "sha256:41",
  ...over,
});

describe("replicaState", () => {
  it.each([
    [{}, ReplicaState.REPLICA_STATE_READY, ""],
    [{ health: undefined }, ReplicaState.REPLICA_STATE_STARTING, "waiting for an assignment"],
    [{ health: INITIAL_HEALTH }, ReplicaState.REPLICA_STATE_STARTING, INITIAL_HEALTH.detail],
    [{ health: unhealthy }, ReplicaState.REPLICA_STATE_FAILED, "gone"],
    [{ specError: "bad" }, ReplicaState.REPLICA_STATE_FAILED, "bad"],
    [{ draining: true, specError: "bad" }, ReplicaState.REPLICA_STATE_DRAINING, "finishing what is queued"],
  ])("%# is told with its reason", (over, state, detail) => {
    expect(replicaState(facts(over))).toMatchObject({ state, detail });
  });

  it("names the loaded digest only when something is loaded", () => {
    expect(replicaState(facts({})).loadedDigest).toBe("sha256:41");
    expect(replicaState(facts({ health: unhealthy })).loadedDigest).toBe("");
  });

  it("does not take another detail for another state", () => {
    const one = replicaState(facts({ health: unhealthy }));
    const other = { ...one, detail: "still gone" };
    expect([sameForRouting(one, other), sameState(one, other)]).toEqual([true, false]);
  });
});

describe("backoffDelayMs", () => {
  it("doubles up to its maximum and spreads by half", () => {
    const backoff = { firstMs: 100, maxMs: 5000 };
    expect([0, 1, 2, 10, 1000].map((attempt) => backoffDelayMs(backoff, attempt, 0))).toEqual([
      50, 100, 200, 2500, 2500,
    ]);
    expect(backoffDelayMs(backoff, 0, 0.999)).toBeLessThan(100);
  });
});
