import { TypedExtensionConfig } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/extension.js";
import type { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { RBAC } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/http/rbac/v3/rbac.js";
import { HttpConnectionManager } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.js";
import { HeaderMutation } from "@servemesh/proto/gen/envoy/envoy/extensions/http/early_header_mutation/header_mutation/v3/header_mutation.js";
import { H_ROUTE, H_SHADOW_CLUSTER, H_STICKY } from "@servemesh/proto/names";
import { packAny } from "./any.js";
import { setMutation } from "./headers.js";
import { GATE } from "./names.js";
import type { MeshResources } from "./translate.js";

/** Headers that the gate would set, and those of a test's client that stand in for them. */
const FROM_CLIENT = { [H_ROUTE]: "x-test-route", [H_SHADOW_CLUSTER]: "x-test-shadow", [H_STICKY]: "x-test-sticky" };

/**
 * The control plane's half alone: the gate lets everything pass, and the client names the route itself. Everything else is
 * what `translate` made.
 */
export function withOpenGate(resources: MeshResources): MeshResources {
  const allowAll = RBAC.fromPartial({});
  const gate = TypedExtensionConfig.fromPartial({ name: GATE, typedConfig: packAny(RBAC, allowAll) });
  return { ...withRouteOfClient(resources), extensions: [gate] };
}

/** The client names the route, and the gate is what `translate` made. */
export function withRouteOfClient(resources: MeshResources): MeshResources {
  return { ...resources, listeners: resources.listeners.map(takeHeadersFromClient) };
}

function takeHeadersFromClient(listener: Listener): Listener {
  const filter = listener.filterChains[0]?.filters[0];
  if (filter?.configType?.$case !== "typedConfig") throw new Error("the listener has no connection manager");
  const manager = HttpConnectionManager.decode(filter.configType.value.value);
  const [early] = manager.earlyHeaderMutationExtensions;
  if (early?.typedConfig === undefined) throw new Error("the connection manager strips no headers");
  const mutations = HeaderMutation.decode(early.typedConfig.value);
  for (const [to, from] of Object.entries(FROM_CLIENT)) mutations.mutations.push(setMutation(to, `%REQ(${from})%`));
  early.typedConfig = packAny(HeaderMutation, mutations);
  filter.configType.value = packAny(HttpConnectionManager, manager);
  return listener;
}
