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

/** A translation with all that it was made from. */
export interface Translation {
  readonly plan: MeshPlan;
  readonly settings: TranslateSettings;
  readonly resources: MeshResources;
}

export interface GateSettings {
  /** Wasm code of the filter. */
  readonly module: Uint8Array;
  /** Its configuration, compiled from `MeshPlan.gate`. */
  readonly config: Uint8Array;
}

/**
 * Pure: equal plans and settings give equal resources.
 * @param previous source of messages for what did not change: the same part of a plan gives the same message object, and a
 *   list of which nothing changed is the same list
 */
export function translate(plan: MeshPlan, settings: TranslateSettings, previous?: Translation): MeshResources {
  return {
    clusters: translateClusters(plan, previous),
    endpoints: translateEndpoints(plan, previous),
    listeners: listenersOf(plan, settings, previous),
    extensions: extensionsOf(settings, previous),
    scopes: translateScopes(plan, previous),
    routes: translateRoutes(plan, previous),
  };
}

function listenersOf(
  plan: MeshPlan,
  settings: TranslateSettings,
  previous: Translation | undefined,
): readonly Listener[] {
  const isSame =
    previous?.plan.gateway === plan.gateway &&
    previous?.settings.transcoderDescriptor === settings.transcoderDescriptor &&
    previous.settings.accessLogPath === settings.accessLogPath;
  return isSame ? previous.resources.listeners : translateListeners(plan.gateway, settings);
}

function extensionsOf({ gate }: TranslateSettings, previous: Translation | undefined): readonly TypedExtensionConfig[] {
  const before = previous?.settings.gate;
  if (previous !== undefined && before?.module === gate?.module && before?.config === gate?.config) {
    return previous.resources.extensions;
  }
  return [gate === undefined ? closedGateExtension() : gateExtension(gate.module, gate.config)];
}
