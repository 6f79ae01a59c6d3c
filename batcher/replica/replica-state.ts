import { ReplicaState } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { HealthState } from "../triton/health-policy.js";

/** Everything that decides what this replica reports. */
export interface ReplicaFacts {
  readonly draining: boolean;
  /** Why the assigned record cannot be served; undefined when it can, or when there is none yet. */
  readonly specError: string | undefined;
  /** Of the model server of the assigned version; undefined before an assignment. */
  readonly health: HealthState | undefined;
  readonly artifactDigest: string;
}

export interface ReportedState {
  readonly state: ReplicaState;
  readonly detail: string;
  readonly loadedDigest: string;
}

/** What is told to the control plane: READY is only a model server that has answered one zero inference of this spec. */
export function replicaState(facts: ReplicaFacts): ReportedState {
  const report = (state: ReplicaState, detail: string, loadedDigest = ""): ReportedState => ({
    state,
    detail,
    loadedDigest,
  });
  if (facts.draining)
    return report(ReplicaState.REPLICA_STATE_DRAINING, "finishing what is queued", facts.artifactDigest);
  if (facts.specError !== undefined) return report(ReplicaState.REPLICA_STATE_FAILED, facts.specError);
  if (facts.health === undefined) return report(ReplicaState.REPLICA_STATE_STARTING, "waiting for an assignment");
  switch (facts.health.phase) {
    case "starting":
      return report(ReplicaState.REPLICA_STATE_STARTING, facts.health.detail);
    case "unhealthy":
      return report(ReplicaState.REPLICA_STATE_FAILED, facts.health.detail);
    case "ready":
    case "suspect":
      return report(ReplicaState.REPLICA_STATE_READY, "", facts.artifactDigest);
  }
}

/** Whether two reports mean the same for routing; the detail is for people and may wait. */
export function sameForRouting(a: ReportedState, b: ReportedState): boolean {
  return a.state === b.state && a.loadedDigest === b.loadedDigest;
}

/** Whether two reports say the same. */
export function sameState(a: ReportedState, b: ReportedState): boolean {
  return sameForRouting(a, b) && a.detail === b.detail;
}
