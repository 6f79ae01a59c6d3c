/** The xDS types that we serve, by what they hold. */
export const CLUSTER_TYPE = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
export const ENDPOINT_TYPE = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
export const SECRET_TYPE = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
export const RUNTIME_TYPE = "type.googleapis.com/envoy.service.runtime.v3.Runtime";
export const LISTENER_TYPE = "type.googleapis.com/envoy.config.listener.v3.Listener";
export const EXTENSION_TYPE = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";
export const SCOPE_TYPE = "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration";
export const ROUTE_TYPE = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
export const VIRTUAL_HOST_TYPE = "type.googleapis.com/envoy.config.route.v3.VirtualHost";

/**
 * In the order in which additions travel: what is named before what names it. Scopes and routes before the gate's
 * configuration, so that a model has routes before the gate lets its calls pass. Runtimes name nothing and are named by nothing.
 */
export const DELIVERY_ORDER = [
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  SECRET_TYPE,
  LISTENER_TYPE,
  SCOPE_TYPE,
  ROUTE_TYPE,
  VIRTUAL_HOST_TYPE,
  EXTENSION_TYPE,
  RUNTIME_TYPE,
] as const;

export type ResourceType = (typeof DELIVERY_ORDER)[number];

/**
 * Types that Envoy asks for as a whole, by a first request that names nothing. Not so virtual hosts: there the same request
 * begins a list to which names are added when calls need them (envoy#12742), and all hosts would be what the type is there to avoid.
 */
export const WILDCARD_TYPES: ReadonlySet<string> = new Set([CLUSTER_TYPE, LISTENER_TYPE, SCOPE_TYPE]);

export function isResourceType(typeUrl: string): typeUrl is ResourceType {
  return (DELIVERY_ORDER as readonly string[]).includes(typeUrl);
}
