import type { Cluster } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import type { TypedExtensionConfig } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/extension.js";
import type { ClusterLoadAssignment } from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/endpoint.js";
import type { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import type { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import type { ScopedRouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/scoped_route.js";
import type { MeshPlan } from "../plan/mesh-plan.js";
import { translateClusters, translateEndpoints } from "./clusters.js";
import { closedGateExtension, gateExtension } from "./gate-filter.js";
import { type ListenerSettings, translateListeners } from "./listeners.js";
import { translateRoutes, translateScopes } from "./routes.js";

/** A mesh in Envoy's words, one list per xDS type; plan → **translate** → snapshot. */
export interface MeshResources {
  readonly clusters: readonly Cluster[];
  readonly endpoints: readonly ClusterLoadAssignment[];
  readonly listeners: readonly Listener[];
  readonly extensions: readonly TypedExtensionConfig[];
  readonly scopes: readonly ScopedRouteConfiguration[];
  readonly routes: readonly RouteConfiguration[];
}

export interface TranslateSettings extends ListenerSettings {
  /** The gate filter. Without it a closed gate stands in its place and every call is refused as unavailable. */
  readonly gate: GateSettings | undefined;
}

export interface GateSettings {
  /** Wasm code of the filter. */
  readonly module: Uint8Array;
  /** Its configuration, compiled from `MeshPlan.gate`. */
  readonly config: Uint8Array;
}

/** Pure: equal plans and settings give equal resources. */
export function translate(plan: MeshPlan, settings: TranslateSettings): MeshResources {
  const { gate } = settings;
  return {
    clusters: translateClusters(plan),
    endpoints: translateEndpoints(plan),
    listeners: translateListeners(plan.gateway, settings),
    extensions: [gate === undefined ? closedGateExtension() : gateExtension(gate.module, gate.config)],
    scopes: translateScopes(plan),
    routes: translateRoutes(plan),
  };
}
