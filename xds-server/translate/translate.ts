import type { Cluster } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import type { TypedExtensionConfig } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/extension.js";
import type { ClusterLoadAssignment } from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/endpoint.js";
import type { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import type { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import type { ScopedRouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/scoped_route.js";
import type { Secret } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/secret.js";
import type { GatewayPlan, MeshPlan } from "../plan/mesh-plan.js";
import type { MeshIdentityInForce } from "../secrets/mesh-identity.js";
import { translateClusters, translateEndpoints } from "./clusters.js";
import { closedGateExtension, gateExtension } from "./gate-filter.js";
import { hasCertificate, type ListenerSettings, translateListeners } from "./listeners.js";
import { translateRoutes, translateScopes } from "./routes.js";
import { type RuntimeLayer, translateRuntimes } from "./runtimes.js";
import { translateSecrets } from "./secrets.js";

/** What Envoys of all groups may be told, one list per xDS type. */
export interface SharedResources {
  readonly clusters: readonly Cluster[];
  readonly endpoints: readonly ClusterLoadAssignment[];
  readonly scopes: readonly ScopedRouteConfiguration[];
  readonly routes: readonly RouteConfiguration[];
}

/** What each group of Envoys has of its own. */
export interface GroupResources {
  readonly listeners: readonly Listener[];
  readonly extensions: readonly TypedExtensionConfig[];
  /** Certificates of its TLS listeners; absent means none. */
  readonly secrets?: readonly Secret[];
  /** Layers of its runtime; absent means none. */
  readonly runtimes?: readonly RuntimeLayer[];
}

/** All that one group of Envoys is told, in Envoy's words; plan → **translate** → snapshot. */
export interface MeshResources extends SharedResources, GroupResources {}

export interface TranslateSettings extends ListenerSettings {
  /** Mesh identities by name of the gateway; absent means none. */
  readonly identities?: ReadonlyMap<string, MeshIdentityInForce>;
  /** The gate filter. Without it a closed gate stands in its place and every call is refused as unavailable. */
  readonly gate: GateSettings | undefined;
}

export interface GateSettings {
  /** Wasm code of the filter. */
  readonly module: Uint8Array;
  /** Its configuration, compiled from `MeshPlan.gate`. */
  readonly config: Uint8Array;
}

/** Shared resources with what they were made from. */
export interface SharedTranslation {
  readonly plan: MeshPlan;
  /** Where the batchers' identities lie; undefined for groups that have none themselves, and so reach none with TLS. */
  readonly trustDomain: string | undefined;
  readonly resources: SharedResources;
}

/** Resources of a group with all that they were made from. */
export interface GroupTranslation {
  readonly gateway: GatewayPlan | undefined;
  readonly settings: TranslateSettings;
  readonly resources: GroupResources;
}

/**
 * Pure: equal plans give equal resources.
 * @param trustDomain of the group's mesh identity; undefined when it has none
 * @param previous of the same trust domain; source of messages for what did not change: the same part of a plan gives the
 *   same message object, and a list of which nothing changed is the same list
 */
export function translateShared(
  plan: MeshPlan,
  trustDomain: string | undefined,
  previous?: SharedTranslation,
): SharedResources {
  return {
    clusters: translateClusters(plan, trustDomain, previous),
    endpoints: translateEndpoints(plan, trustDomain, previous),
    scopes: translateScopes(plan, previous),
    routes: translateRoutes(plan, previous),
  };
}

/**
 * The listeners and the gate of a group. Pure.
 * @param previous of the same group; what did not change is the same list
 */
export function translateGroup(
  gateway: GatewayPlan | undefined,
  settings: TranslateSettings,
  previous?: GroupTranslation,
): GroupResources {
  return {
    listeners: listenersOf(gateway, settings, previous),
    extensions: extensionsOf(settings, previous),
    secrets: secretsOf(gateway, settings, previous),
    runtimes: (previous?.gateway === gateway ? previous?.resources.runtimes : undefined) ?? translateRuntimes(gateway),
  };
}

function listenersOf(
  gateway: GatewayPlan | undefined,
  settings: TranslateSettings,
  previous: GroupTranslation | undefined,
): readonly Listener[] {
  const isSame =
    previous?.gateway === gateway &&
    previous?.settings.transcoderDescriptor === settings.transcoderDescriptor &&
    hasCertificate(gateway, previous.settings) === hasCertificate(gateway, settings) &&
    previous.settings.accessLogPath === settings.accessLogPath;
  return isSame ? previous.resources.listeners : translateListeners(gateway, settings);
}

function secretsOf(
  gateway: GatewayPlan | undefined,
  settings: TranslateSettings,
  previous: GroupTranslation | undefined,
): readonly Secret[] {
  const name = gateway?.name ?? "";
  const isSame =
    previous?.gateway === gateway &&
    previous?.settings.secrets?.get(name) === settings.secrets?.get(name) &&
    previous?.settings.identities?.get(name) === settings.identities?.get(name);
  return (isSame ? previous?.resources.secrets : undefined) ?? translateSecrets(gateway, settings);
}

function extensionsOf(
  { gate }: TranslateSettings,
  previous: GroupTranslation | undefined,
): readonly TypedExtensionConfig[] {
  const before = previous?.settings.gate;
  if (previous !== undefined && before?.module === gate?.module && before?.config === gate?.config) {
    return previous.resources.extensions;
  }
  return [gate === undefined ? closedGateExtension() : gateExtension(gate.module, gate.config)];
}
