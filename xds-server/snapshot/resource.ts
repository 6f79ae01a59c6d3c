import { createHash } from "node:crypto";
import { Cluster } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import { TypedExtensionConfig } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/extension.js";
import { ClusterLoadAssignment } from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/endpoint.js";
import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import { VirtualHost } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route_components.js";
import { ScopedRouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/scoped_route.js";
import { Secret } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/secret.js";
import { Runtime } from "@servemesh/proto/gen/envoy/envoy/service/runtime/v3/rtds.js";
import { Duration } from "@servemesh/proto/gen/envoy/google/protobuf/duration.js";
import type { RuntimeLayer } from "../translate/runtimes.js";
import { clustersOf, clustersOfHosts, secretsOf } from "./references.js";
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
} from "./resource-types.js";
import { lengthDelimited } from "./wire.js";

/** One xDS resource, encoded once; all streams send the same bytes. Immutable. */
export interface Resource {
  readonly typeUrl: ResourceType;
  readonly name: string;
  /** Hash of the content: equal content has an equal version, on every replica and after every restart. */
  readonly version: string;
  /** Field `resources` of a DeltaDiscoveryResponse, ready to be joined with others. */
  readonly deltaChunk: Buffer;
  /** What must exist for this to work: clusters of a route table, table of a scope, endpoint list of a cluster, secrets of a listener. */
  readonly needs: readonly string[];
  /** True for an endpoint list without endpoints. */
  readonly isEmpty: boolean;
  /** For a content that a client drops when it hears nothing of us; absent means that it stays. */
  readonly expiry?: Expiry;
}

/** How long a resource counts, for clients that know of such limits; others get it without. */
export interface Expiry {
  readonly ttlMs: number;
  /** Fields of envoy.service.discovery.v3.Resource, without the version: the content with its limit. */
  readonly limited: Buffer;
  /** The same without the content: it counts for as long again. */
  readonly heartbeat: Buffer;
}

export function clusterResource(message: Cluster): Resource {
  const endpoints = message.edsClusterConfig?.serviceName || message.name;
  const needs = message.edsClusterConfig === undefined ? [] : [endpoints];
  return resource(CLUSTER_TYPE, message.name, Cluster.encode(message).finish(), needs);
}

export function endpointResource(message: ClusterLoadAssignment): Resource {
  const isEmpty = message.endpoints.every((locality) => locality.lbEndpoints.length === 0);
  const bytes = ClusterLoadAssignment.encode(message).finish();
  return resource(ENDPOINT_TYPE, message.clusterName, bytes, [], isEmpty);
}

export function listenerResource(message: Listener): Resource {
  return resource(LISTENER_TYPE, message.name, Listener.encode(message).finish(), secretsOf(message));
}

export function secretResource(message: Secret): Resource {
  return resource(SECRET_TYPE, message.name, Secret.encode(message).finish());
}

export function extensionResource(message: TypedExtensionConfig): Resource {
  return resource(EXTENSION_TYPE, message.name, TypedExtensionConfig.encode(message).finish());
}

export function runtimeResource({ runtime, ttlMs }: RuntimeLayer): Resource {
  const body = Runtime.encode(runtime).finish();
  return ttlMs === undefined
    ? resource(RUNTIME_TYPE, runtime.name, body)
    : expiringResource(RUNTIME_TYPE, runtime.name, body, ttlMs);
}

export function scopeResource(message: ScopedRouteConfiguration): Resource {
  const bytes = ScopedRouteConfiguration.encode(message).finish();
  return resource(SCOPE_TYPE, message.name, bytes, [message.routeConfigurationName]);
}

export function routeResource(message: RouteConfiguration): Resource {
  return resource(ROUTE_TYPE, message.name, RouteConfiguration.encode(message).finish(), clustersOf(message));
}

/**
 * A virtual host that Envoy asks for when a call needs it. Its name is `<route table>/<authority>`: what Envoy makes of a call, in
 * lower case and with the port that the call names. Envoy removes by the same name.
 */
export function virtualHostResource(message: VirtualHost): Resource {
  return resource(VIRTUAL_HOST_TYPE, message.name, VirtualHost.encode(message).finish(), clustersOfHosts([message]));
}

/**
 * The answer for a virtual host that does not exist. "Removed" would leave the call that asks for it waiting for ever; a
 * resource without content that is known by that name ends it with 404 (Envoy's VHDS page).
 */
export function absentHost(name: string): Resource {
  const version = contentHash("");
  // envoy.service.discovery.v3.Resource: 1 version, 3 name, 4 aliases.
  const wrapped = Buffer.concat([lengthDelimited(1, version), lengthDelimited(3, name), lengthDelimited(4, name)]);
  const deltaChunk = lengthDelimited(2, wrapped);
  return { typeUrl: VIRTUAL_HOST_TYPE, name, version, deltaChunk, needs: [], isEmpty: true };
}

/**
 * The answer for a route table that does not exist. "Removed" would leave a starting Envoy waiting with its port closed
 * for ever; an empty table opens it and answers 404 for that scope alone.
 */
export function emptyRouteTable(name: string): Resource {
  return routeResource(RouteConfiguration.fromPartial({ name }));
}

function resource(
  typeUrl: ResourceType,
  name: string,
  body: Uint8Array,
  needs: readonly string[] = [],
  isEmpty = false,
): Resource {
  const version = contentHash(body);
  // envoy.service.discovery.v3.Resource: 1 version, 2 resource (Any: 1 type_url, 2 value), 3 name.
  const any = Buffer.concat([lengthDelimited(1, typeUrl), lengthDelimited(2, body)]);
  const wrapped = Buffer.concat([lengthDelimited(1, version), lengthDelimited(2, any), lengthDelimited(3, name)]);
  return { typeUrl, name, version, deltaChunk: lengthDelimited(2, wrapped), needs, isEmpty };
}

/** Another limit is another content, or clients would keep the one that they were told first. */
function expiringResource(typeUrl: ResourceType, name: string, body: Uint8Array, ttlMs: number): Resource {
  const version = contentHash(Buffer.concat([body, Buffer.from(` ${ttlMs}`)]));
  const content = lengthDelimited(2, Buffer.concat([lengthDelimited(1, typeUrl), lengthDelimited(2, body)]));
  const seconds = Math.ceil(ttlMs / 1_000);
  const limit = lengthDelimited(6, Duration.encode({ seconds, nanos: 0 }).finish());
  const heartbeat = Buffer.concat([lengthDelimited(3, name), limit]);
  const expiry = { ttlMs, limited: Buffer.concat([content, heartbeat]), heartbeat };
  const plain = Buffer.concat([lengthDelimited(1, version), content, lengthDelimited(3, name)]);
  return { typeUrl, name, version, deltaChunk: lengthDelimited(2, plain), needs: [], isEmpty: false, expiry };
}

/** SHA-256 cut to 128 bits, as hex: no chance of an accidental collision, and short in logs. */
export function contentHash(content: Uint8Array | string): string {
  return createHash("sha256").update(content).digest("hex").slice(0, 32);
}
