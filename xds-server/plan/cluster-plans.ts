import type { EntryChange } from "../platform/layered-map.js";
import type { ReadyEndpoints } from "./endpoints.js";
import type { ClusterPlan, Endpoint, ModelPlan } from "./mesh-plan.js";
import { positionOf, replaceNamed } from "./named-list.js";
import { clusterName } from "./names.js";

/**
 * One cluster per version that some route may name. A last good split may still name an archived one. Clusters whose
 * endpoint list is the same object are shared with the plan before.
 */
export function planClusters(
  models: readonly ModelPlan[],
  endpoints: ReadyEndpoints,
  before: readonly ClusterPlan[],
): readonly ClusterPlan[] {
  const known = new Map(before.map((cluster) => [cluster.version, cluster]));
  const versions = new Set(models.flatMap((model) => [...versionsNamedBy(model)]));
  return [...versions]
    .map((version) => clusterPlan(version, endpoints, known.get(version)))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The same clusters, of which some versions have other endpoints now. */
export function withClusterEndpoints(
  before: readonly ClusterPlan[],
  endpoints: ReadyEndpoints,
  changes: readonly EntryChange<readonly Endpoint[]>[],
): readonly ClusterPlan[] {
  const nameOf = ({ name }: ClusterPlan): string => name;
  const updates = new Map<string, ClusterPlan>();
  for (const { key: version } of changes) {
    const name = clusterName(version);
    // A version that no route may name has no cluster, whether it is ready or not.
    if (positionOf(before, name, nameOf) !== undefined) updates.set(name, clusterPlan(version, endpoints, undefined));
  }
  return replaceNamed(before, updates, nameOf);
}

/** Whether two plans of a model name the same versions, so that the mesh has the same clusters with either. */
export function nameSameVersions(a: ModelPlan | undefined, b: ModelPlan | undefined): boolean {
  const [first, second] = [versionsNamedBy(a), versionsNamedBy(b)];
  return first.size === second.size && [...first].every((version) => second.has(version));
}

/** Versions that a model's routes may name: pinned ones and those of its aliases, also of other models. */
function versionsNamedBy(plan: ModelPlan | undefined): ReadonlySet<string> {
  const versions = new Set<string>();
  for (const { first } of plan?.pinned ?? []) for (const version of first) versions.add(version);
  for (const { policy } of plan?.aliases ?? []) {
    if (policy === undefined) continue;
    for (const member of policy.split) versions.add(member.version);
    for (const version of policy.fallback) versions.add(version);
    if (policy.shadow !== undefined) versions.add(policy.shadow);
  }
  return versions;
}

const NO_ENDPOINTS: ClusterPlan["endpoints"] = [];

function clusterPlan(version: string, endpoints: ReadyEndpoints, before: ClusterPlan | undefined): ClusterPlan {
  const list = endpoints.get(version) ?? NO_ENDPOINTS;
  return before?.endpoints === list ? before : { name: clusterName(version), version, endpoints: list };
}
