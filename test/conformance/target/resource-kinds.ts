import { Cluster, Cluster_DiscoveryType } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import { Address } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/address.js";
import {
  ClusterLoadAssignment,
  ClusterLoadAssignment_Policy,
} from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/endpoint.js";
import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import { Router } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/http/router/v3/router.js";
import { HttpConnectionManager } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.js";

/** One type of resource as the target handles it: encoded, because a state holds several types side by side. */
export interface ResourceKind {
  /**
   * Name and content of a message; one that has nothing but a name gets a content that Envoy accepts.
   * @throws Error when the bytes are no message of this type
   */
  read(bytes: Uint8Array): { readonly name: string; readonly content: Uint8Array };
  /** A valid resource that needs no other one. */
  make(name: string): Uint8Array;
  /** The same resource with another content for each revision; valid if it was. */
  revise(content: Uint8Array, revision: number): Uint8Array;
}

interface Codec<M> {
  encode(message: M): { finish(): Uint8Array };
  decode(bytes: Uint8Array): M;
}

interface Rules<M> {
  nameOf(message: M): string;
  /** A message with nothing but a name. */
  bare(name: string): M;
  complete(name: string): M;
  revise(message: M, revision: number): M;
}

function kindOf<M>(codec: Codec<M>, rules: Rules<M>): ResourceKind {
  const encode = (message: M): Uint8Array => codec.encode(message).finish();
  return {
    read: (bytes) => {
      const message = codec.decode(bytes);
      const name = rules.nameOf(message);
      const content = encode(message);
      const isBare = Buffer.compare(content, encode(rules.bare(name))) === 0;
      return { name, content: isBare ? encode(rules.complete(name)) : content };
    },
    make: (name) => encode(rules.complete(name)),
    revise: (content, revision) => encode(rules.revise(codec.decode(content), revision)),
  };
}

const CONNECT_TIMEOUT_S = 5;
const BACKLOG = 128;
/** Envoy's own value. */
const OVERPROVISIONING_PERCENT = 140;

const loopback = (port: number): Address =>
  Address.fromPartial({
    address: {
      $case: "socketAddress",
      value: { address: "127.0.0.1", portSpecifier: { $case: "portValue", value: port } },
    },
  });

const endpoints = (clusterName: string): ClusterLoadAssignment =>
  ClusterLoadAssignment.fromPartial({
    clusterName,
    endpoints: [
      {
        locality: { region: "conformance" },
        loadBalancingWeight: 1,
        lbEndpoints: [{ hostIdentifier: { $case: "endpoint", value: { address: loopback(10_000) } } }],
      },
    ],
  });

/** A table that answers by itself, so that it needs no cluster. */
const routes = (name: string): RouteConfiguration =>
  RouteConfiguration.fromPartial({
    name,
    virtualHosts: [
      {
        name: "all",
        domains: ["*"],
        routes: [
          {
            match: { pathSpecifier: { $case: "prefix", value: "/" } },
            action: { $case: "directResponse", value: { status: 200 } },
          },
        ],
      },
    ],
  });

function listener(name: string): Listener {
  const manager = HttpConnectionManager.fromPartial({
    statPrefix: "conformance",
    routeSpecifier: { $case: "routeConfig", value: routes("inline") },
    httpFilters: [{ name: "router", configType: packed(Router.$type, Router.encode(Router.fromPartial({})).finish()) }],
  });
  const filter = packed(HttpConnectionManager.$type, HttpConnectionManager.encode(manager).finish());
  return Listener.fromPartial({
    name,
    // Any free port: two listeners must not have the same address.
    address: loopback(0),
    filterChains: [{ filters: [{ name: "http", configType: filter }] }],
    tcpBacklogSize: BACKLOG,
  });
}

function packed(type: string, bytes: Uint8Array) {
  return {
    $case: "typedConfig" as const,
    value: { typeUrl: `type.googleapis.com/${type}`, value: Buffer.from(bytes) },
  };
}

/** The types of the suite, in the words of the protocol. */
export const CLUSTER_TYPE = `type.googleapis.com/${Cluster.$type}`;
export const ENDPOINT_TYPE = `type.googleapis.com/${ClusterLoadAssignment.$type}`;
export const LISTENER_TYPE = `type.googleapis.com/${Listener.$type}`;
export const ROUTE_TYPE = `type.googleapis.com/${RouteConfiguration.$type}`;

export const RESOURCE_KINDS: ReadonlyMap<string, ResourceKind> = new Map([
  [
    CLUSTER_TYPE,
    kindOf<Cluster>(Cluster, {
      nameOf: ({ name }) => name,
      bare: (name) => Cluster.fromPartial({ name }),
      complete: (name) =>
        Cluster.fromPartial({
          name,
          // Not by EDS: the suite sets clusters without endpoint lists, and such a cluster would wait for its own.
          clusterDiscoveryType: { $case: "type", value: Cluster_DiscoveryType.STATIC },
          connectTimeout: { seconds: CONNECT_TIMEOUT_S },
          loadAssignment: endpoints(name),
        }),
      revise: (cluster, revision) => ({
        ...cluster,
        connectTimeout: { seconds: CONNECT_TIMEOUT_S + revision, nanos: 0 },
      }),
    }),
  ],
  [
    ENDPOINT_TYPE,
    kindOf<ClusterLoadAssignment>(ClusterLoadAssignment, {
      nameOf: ({ clusterName }) => clusterName,
      bare: (clusterName) => ClusterLoadAssignment.fromPartial({ clusterName }),
      complete: endpoints,
      revise: (list, revision) => ({
        ...list,
        policy: ClusterLoadAssignment_Policy.fromPartial({
          ...list.policy,
          overprovisioningFactor: OVERPROVISIONING_PERCENT + revision,
        }),
      }),
    }),
  ],
  [
    LISTENER_TYPE,
    kindOf<Listener>(Listener, {
      nameOf: ({ name }) => name,
      bare: (name) => Listener.fromPartial({ name }),
      complete: listener,
      revise: (message, revision) => ({ ...message, tcpBacklogSize: BACKLOG + revision }),
    }),
  ],
  [
    ROUTE_TYPE,
    kindOf<RouteConfiguration>(RouteConfiguration, {
      nameOf: ({ name }) => name,
      bare: (name) => RouteConfiguration.fromPartial({ name }),
      complete: routes,
      revise: (table, revision) => ({ ...table, internalOnlyHeaders: [`x-revision-${revision}`] }),
    }),
  ],
]);
