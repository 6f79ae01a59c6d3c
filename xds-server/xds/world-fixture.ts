import { Cluster } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import { TypedExtensionConfig } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/extension.js";
import { ClusterLoadAssignment } from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/endpoint.js";
import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import { VirtualHost } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route_components.js";
import { ScopedRouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/scoped_route.js";
import { Secret } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/secret.js";
import { Runtime } from "@servemesh/proto/gen/envoy/envoy/service/runtime/v3/rtds.js";
import {
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  LISTENER_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  RUNTIME_TYPE,
  SCOPE_TYPE,
  SECRET_TYPE,
  VIRTUAL_HOST_TYPE,
} from "../snapshot/resource-types.js";
import { buildSnapshot, type Snapshot } from "../snapshot/snapshot.js";

/**
 * Resources that need nothing of each other, for tests of the protocol alone: each has a name and a revision, and a new
 * revision is a new content.
 */
export class World {
  readonly #revisions = new Map<ResourceType, Map<string, string>>();

  set(type: ResourceType, names: readonly string[], revision: string): this {
    const revisions = this.#revisions.get(type) ?? new Map<string, string>();
    this.#revisions.set(type, revisions);
    for (const name of names) revisions.set(name, revision);
    return this;
  }

  remove(type: ResourceType, name: string): this {
    this.#revisions.get(type)?.delete(name);
    return this;
  }

  snapshot(): Snapshot {
    const all = <M>(type: ResourceType, message: (name: string, revision: string) => M): M[] =>
      [...(this.#revisions.get(type) ?? [])].map(([name, revision]) => message(name, revision));
    return buildSnapshot({
      clusters: all(CLUSTER_TYPE, (name, altStatName) => Cluster.fromPartial({ name, altStatName })),
      endpoints: all(ENDPOINT_TYPE, (clusterName, revision) =>
        ClusterLoadAssignment.fromPartial({
          clusterName,
          endpoints: [{ locality: { zone: revision }, lbEndpoints: [{ loadBalancingWeight: 1 }] }],
        }),
      ),
      listeners: all(LISTENER_TYPE, (name, statPrefix) => Listener.fromPartial({ name, statPrefix })),
      scopes: all(SCOPE_TYPE, (name, routeConfigurationName) =>
        ScopedRouteConfiguration.fromPartial({ name, routeConfigurationName }),
      ),
      routes: all(ROUTE_TYPE, (name, header) =>
        RouteConfiguration.fromPartial({ name, internalOnlyHeaders: [header] }),
      ),
      virtualHosts: all(VIRTUAL_HOST_TYPE, (name, revision) => VirtualHost.fromPartial({ name, domains: [revision] })),
      secrets: all(SECRET_TYPE, (name, revision) =>
        Secret.fromPartial({ name, type: { $case: "genericSecret", value: { secret: inline(revision) } } }),
      ),
      runtimes: all(RUNTIME_TYPE, (name, revision) => ({
        runtime: Runtime.fromPartial({ name, layer: { revision } }),
        ttlMs: undefined,
      })),
      extensions: all(EXTENSION_TYPE, (name, revision) =>
        TypedExtensionConfig.fromPartial({ name, typedConfig: { typeUrl: `type.googleapis.com/${revision}` } }),
      ),
    });
  }
}

function inline(value: string) {
  return { specifier: { $case: "inlineString" as const, value } };
}

const REVISION_OF: Readonly<Record<ResourceType, (value: Uint8Array) => readonly [name: string, revision: string]>> = {
  [CLUSTER_TYPE]: (value) => {
    const { name, altStatName } = Cluster.decode(value);
    return [name, altStatName];
  },
  [ENDPOINT_TYPE]: (value) => {
    const { clusterName, endpoints } = ClusterLoadAssignment.decode(value);
    return [clusterName, endpoints[0]?.locality?.zone ?? ""];
  },
  [LISTENER_TYPE]: (value) => {
    const { name, statPrefix } = Listener.decode(value);
    return [name, statPrefix];
  },
  [SCOPE_TYPE]: (value) => {
    const { name, routeConfigurationName } = ScopedRouteConfiguration.decode(value);
    return [name, routeConfigurationName];
  },
  [ROUTE_TYPE]: (value) => {
    const { name, internalOnlyHeaders } = RouteConfiguration.decode(value);
    // The stand-in for a table that does not exist has none.
    return [name, internalOnlyHeaders[0] ?? "none"];
  },
  [VIRTUAL_HOST_TYPE]: (value) => {
    const { name, domains } = VirtualHost.decode(value);
    return [name, domains[0] ?? ""];
  },
  [SECRET_TYPE]: (value) => {
    const { name, type } = Secret.decode(value);
    const secret = type?.$case === "genericSecret" ? type.value.secret?.specifier : undefined;
    return [name, secret?.$case === "inlineString" ? secret.value : ""];
  },
  [RUNTIME_TYPE]: (value) => {
    const { name, layer } = Runtime.decode(value);
    return [name, String(layer?.revision ?? "")];
  },
  [EXTENSION_TYPE]: (value) => {
    const { name, typedConfig } = TypedExtensionConfig.decode(value);
    return [name, typedConfig?.typeUrl.split("/")[1] ?? ""];
  },
};

/** `name@revision` of an encoded resource. */
export function nameAndRevision(type: ResourceType, value: Uint8Array): string {
  return REVISION_OF[type](value).join("@");
}
