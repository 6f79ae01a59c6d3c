import type { Alias, ModelVersion } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { LayeredMap } from "../platform/layered-map.js";
import type { Finding, RegistryState } from "../registry/state.js";
import { type Dependents, noDependents } from "./dependents.js";
import { noReplicas, type ReplicaView } from "./endpoints.js";
import { type Groups, noGroups } from "./groups.js";
import type { MeshPlan } from "./mesh-plan.js";
import { noServer, type ServerView } from "./server-endpoints.js";

/** What a plan was made from, sorted so that the next plan repeats only what changed. Immutable, like the plan. */
export interface PlanMemo {
  readonly state: RegistryState;
  /** Alias records by model. */
  readonly aliases: Groups<Alias>;
  /** Version records by model. */
  readonly versions: Groups<ModelVersion>;
  readonly replicas: ReplicaView;
  readonly server: ServerView;
  readonly dependents: Dependents;
  /** Findings by model. */
  readonly troubled: LayeredMap<readonly Finding[]>;
  readonly orphans: readonly Finding[];
}

const NO_RECORDS = new Map<string, never>();

const NOTHING: PlanMemo = {
  state: {
    revision: 0n,
    models: NO_RECORDS,
    versions: NO_RECORDS,
    stages: NO_RECORDS,
    aliases: NO_RECORDS,
    tenants: NO_RECORDS,
    replicas: NO_RECORDS,
    gateways: NO_RECORDS,
    findings: [],
  },
  aliases: noGroups(),
  versions: noGroups(),
  replicas: noReplicas(),
  server: noServer(),
  dependents: noDependents(),
  troubled: LayeredMap.over(new Map()),
  orphans: [],
};

/** Beside the plans, because a plan is plain data that anybody may copy; after a copy everything is planned anew. */
const memos = new WeakMap<MeshPlan, PlanMemo>();

/** Of a plan that `planMesh` did not make, nothing is known. */
export function recall(plan: MeshPlan | undefined): { readonly memo: PlanMemo; readonly isKnown: boolean } {
  const memo = plan === undefined ? undefined : memos.get(plan);
  return { memo: memo ?? NOTHING, isKnown: memo !== undefined };
}

export function remember(plan: MeshPlan, memo: PlanMemo): MeshPlan {
  memos.set(plan, memo);
  return plan;
}
