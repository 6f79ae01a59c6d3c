import { SERVER_SCOPE } from "@servemesh/proto/names";
import type { MeshPlan } from "../plan/mesh-plan.js";
import { modelOf } from "../plan/names.js";
import { routesOf } from "../plan/plan.js";
import { routesName, SERVER_CLUSTER } from "./names.js";
import type { SharedResources } from "./translate.js";

/**
 * The part of a mesh that leads to some models: their scopes and route tables, every cluster of their versions, and the
 * clusters of other models that they fall back on. Server-level calls stay possible.
 */
export function withinScope(shared: SharedResources, plan: MeshPlan, models: readonly string[]): SharedResources {
  const scopes = new Set([...models, SERVER_SCOPE]);
  const routes = new Set([...scopes].map(routesName));
  const clusters = clustersOf(plan, new Set(models));
  return {
    clusters: shared.clusters.filter(({ name }) => clusters.has(name)),
    endpoints: shared.endpoints.filter(({ clusterName }) => clusters.has(clusterName)),
    scopes: shared.scopes.filter(({ name }) => scopes.has(name)),
    routes: shared.routes.filter(({ name }) => routes.has(name)),
  };
}

function clustersOf(plan: MeshPlan, models: ReadonlySet<string>): Set<string> {
  const clusters = new Set([SERVER_CLUSTER]);
  for (const { name, version } of plan.clusters) if (models.has(modelOf(version))) clusters.add(name);
  for (const model of plan.models) {
    if (!models.has(model.model)) continue;
    for (const { groups, shadow } of routesOf(model)) {
      for (const group of groups) for (const { cluster } of group.clusters) clusters.add(cluster);
      if (shadow !== undefined) clusters.add(shadow.cluster);
    }
  }
  return clusters;
}
