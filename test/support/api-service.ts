import { Cluster, Cluster_DiscoveryType } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import { ApiVersion, ConfigSource } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/config_source.js";
import { ClusterLoadAssignment } from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/endpoint.js";
import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import { Router } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/http/router/v3/router.js";
import { HttpConnectionManager } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.js";
import type { MeshResources } from "@servemesh/xds-server";

/** What a gRPC client asks for, one after the other: the last part of the type's name. */
export const API_TYPES = ["Listener", "RouteConfiguration", "Cluster", "ClusterLoadAssignment"] as const;

/** A service as gRPC clients find it: by the name of its listener, through one route, one cluster and one endpoint list. */
export interface ApiService {
  readonly listener: string;
  readonly cluster: string;
  /** Port of its only endpoint, on this machine. */
  readonly port: number;
  /** Another one is another content of all four resources, of the same meaning. */
  readonly revision?: string;
  /** The resource that is made so that gRPC has to refuse it. */
  readonly flawed?: (typeof API_TYPES)[number];
}

/** The four kinds of resources of each service; a cluster that several use is given once, with the endpoint of the first. */
export function apiResources(services: readonly ApiService[]): MeshResources {
  const byCluster = [...new Map([...services].reverse().map((service) => [service.cluster, service])).values()];
  return {
    listeners: services.map(apiListener),
    routes: services.map(routeTable),
    clusters: byCluster.map(edsCluster),
    endpoints: byCluster.map(loadAssignment),
    scopes: [],
    extensions: [],
  };
}

const tableOf = (listener: string): string => `routes/${listener}`;

const ads = (): ConfigSource =>
  ConfigSource.fromPartial({
    configSourceSpecifier: { $case: "ads", value: {} },
    resourceApiVersion: ApiVersion.V3,
  });

function apiListener({ listener, revision = "", flawed }: ApiService): Listener {
  const router = {
    name: "router",
    configType: {
      $case: "typedConfig" as const,
      value: any(Router.$type, Router.encode(Router.fromPartial({})).finish()),
    },
  };
  const manager = HttpConnectionManager.fromPartial({
    routeSpecifier: { $case: "rds", value: { configSource: ads(), routeConfigName: tableOf(listener) } },
    // The router must be the last of the chain, and the only one of its name.
    httpFilters: flawed === "Listener" ? [router, router] : [router],
  });
  const apiListener = any(HttpConnectionManager.$type, HttpConnectionManager.encode(manager).finish());
  return Listener.fromPartial({ name: listener, statPrefix: revision, apiListener: { apiListener } });
}

function routeTable({ listener, cluster, revision = "all", flawed }: ApiService): RouteConfiguration {
  return RouteConfiguration.fromPartial({
    name: tableOf(listener),
    virtualHosts: [
      {
        name: revision,
        // A wildcard stands at an end of a pattern.
        domains: flawed === "RouteConfiguration" ? ["or*ders"] : ["*"],
        routes: [
          {
            match: { pathSpecifier: { $case: "safeRegex", value: { regex: ".*" } } },
            action: { $case: "route", value: { clusterSpecifier: { $case: "cluster", value: cluster } } },
          },
        ],
      },
    ],
  });
}

function edsCluster({ cluster, revision = "", flawed }: ApiService): Cluster {
  // gRPC has no static clusters.
  const value = flawed === "Cluster" ? Cluster_DiscoveryType.STATIC : Cluster_DiscoveryType.EDS;
  return Cluster.fromPartial({
    name: cluster,
    altStatName: revision,
    clusterDiscoveryType: { $case: "type", value },
    edsClusterConfig: { edsConfig: ads() },
  });
}

function loadAssignment({ cluster, port, revision = "", flawed }: ApiService): ClusterLoadAssignment {
  const socketAddress = { address: "127.0.0.1", portSpecifier: { $case: "portValue" as const, value: port } };
  const endpoint = { address: { address: { $case: "socketAddress" as const, value: socketAddress } } };
  return ClusterLoadAssignment.fromPartial({
    clusterName: cluster,
    endpoints: [
      {
        // gRPC passes over localities without a name or a weight.
        locality: { region: "test", zone: revision },
        loadBalancingWeight: 1,
        // Priorities start at 0 and leave none out.
        priority: flawed === "ClusterLoadAssignment" ? 1 : 0,
        lbEndpoints: [{ hostIdentifier: { $case: "endpoint", value: endpoint } }],
      },
    ],
  });
}

function any(type: string, bytes: Uint8Array): { typeUrl: string; value: Buffer } {
  return { typeUrl: `type.googleapis.com/${type}`, value: Buffer.from(bytes) };
}
