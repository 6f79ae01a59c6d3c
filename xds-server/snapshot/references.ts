import type { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import type { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import type { RouteAction, VirtualHost } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route_components.js";
import { PriorityGroupClusterSpecifier } from "@servemesh/proto/gen/envoy/envoy/extensions/router/cluster_specifiers/priority_group/v3/priority_group.js";
import { DownstreamTlsContext } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/tls.js";

const PRIORITY_GROUP_TYPE = `type.googleapis.com/${PriorityGroupClusterSpecifier.$type}`;
const TLS_TYPE = `type.googleapis.com/${DownstreamTlsContext.$type}`;

/**
 * Clusters that a route table names, each once, sorted. Read from the finished message, so that the consistency check
 * does not trust the code that made it. Clusters that a request header names are not known here.
 */
export function clustersOf(table: RouteConfiguration): string[] {
  return clustersOfHosts(table.virtualHosts);
}

export function clustersOfHosts(hosts: readonly VirtualHost[]): string[] {
  const names = new Set<string>();
  for (const host of hosts) {
    for (const route of host.routes) {
      if (route.action?.$case === "route") for (const name of clustersOfAction(route.action.value)) names.add(name);
    }
  }
  return [...names].sort();
}

function clustersOfAction(action: RouteAction): string[] {
  const names = action.requestMirrorPolicies.map((policy) => policy.cluster).filter((name) => name !== "");
  const specifier = action.clusterSpecifier;
  switch (specifier?.$case) {
    case "cluster":
      names.push(specifier.value);
      break;
    case "weightedClusters":
      names.push(...specifier.value.clusters.map((cluster) => cluster.name));
      break;
    case "inlineClusterSpecifierPlugin": {
      const config = specifier.value.extension?.typedConfig;
      if (config?.typeUrl === PRIORITY_GROUP_TYPE) {
        const groups = PriorityGroupClusterSpecifier.decode(config.value).priorityGroups;
        names.push(...groups.flatMap((group) => group.clusters.map((cluster) => cluster.clusterName)));
      }
      break;
    }
    default:
      break;
  }
  return names;
}

/** Certificates that a listener has by name from this control plane, each once, sorted. */
export function secretsOf({ filterChains, defaultFilterChain }: Listener): string[] {
  const names = new Set<string>();
  for (const chain of defaultFilterChain === undefined ? filterChains : [...filterChains, defaultFilterChain]) {
    const config = chain.transportSocket?.configType?.value;
    if (config?.typeUrl !== TLS_TYPE) continue;
    const tls = DownstreamTlsContext.decode(config.value).commonTlsContext;
    for (const { name, sdsConfig } of tls?.tlsCertificateSdsSecretConfigs ?? []) {
      if (sdsConfig?.configSourceSpecifier?.$case === "ads") names.add(name);
    }
  }
  return [...names].sort();
}
