import type { Cluster } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import type { TypedExtensionConfig } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/extension.js";
import type { ClusterLoadAssignment } from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/endpoint.js";
import type { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import type { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import type { VirtualHost } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route_components.js";
import type { ScopedRouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/scoped_route.js";
import type { Secret } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/secret.js";
import { changesBetween } from "../platform/layered-map.js";
import type { RuntimeLayer } from "../translate/runtimes.js";
import type { MeshResources } from "../translate/translate.js";
import {
  clusterResource,
  endpointResource,
  extensionResource,
  listenerResource,
  type Resource,
  routeResource,
  runtimeResource,
  scopeResource,
  secretResource,
  virtualHostResource,
} from "./resource.js";
import {
  CLUSTER_TYPE,
  DELIVERY_ORDER,
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
import { collectType, type TypeCodec, type TypeResources } from "./type-resources.js";
import { formatTypeVersion } from "./type-version.js";

/** All resources of one type by name. */
export type ResourceMap = ReadonlyMap<string, Resource>;

/**
 * One complete state of what Envoys shall hold. Immutable; resources that did not change are shared with the one before,
 * and so is the map of a type of which nothing changed.
 */
export interface Snapshot {
  readonly byType: Readonly<Record<ResourceType, ResourceMap>>;
  /** Hash over names and contents of one type. */
  readonly typeVersions: Readonly<Record<ResourceType, string>>;
  /** Names that were given twice; the first one counts. A snapshot with any is not consistent. */
  readonly duplicates: readonly string[];
}

type MessageOf<T extends ResourceType> = {
  [CLUSTER_TYPE]: Cluster;
  [ENDPOINT_TYPE]: ClusterLoadAssignment;
  [SECRET_TYPE]: Secret;
  [LISTENER_TYPE]: Listener;
  [SCOPE_TYPE]: ScopedRouteConfiguration;
  [ROUTE_TYPE]: RouteConfiguration;
  [VIRTUAL_HOST_TYPE]: VirtualHost;
  [EXTENSION_TYPE]: TypedExtensionConfig;
  [RUNTIME_TYPE]: RuntimeLayer;
}[T];

type Collected = { readonly [T in ResourceType]: TypeResources<MessageOf<T>> };

const CODECS: { readonly [T in ResourceType]: TypeCodec<MessageOf<T>> } = {
  [CLUSTER_TYPE]: { nameOf: ({ name }) => name, encode: once(clusterResource) },
  [ENDPOINT_TYPE]: { nameOf: ({ clusterName }) => clusterName, encode: once(endpointResource) },
  [SECRET_TYPE]: { nameOf: ({ name }) => name, encode: once(secretResource) },
  [LISTENER_TYPE]: { nameOf: ({ name }) => name, encode: once(listenerResource) },
  [SCOPE_TYPE]: { nameOf: ({ name }) => name, encode: once(scopeResource) },
  [ROUTE_TYPE]: { nameOf: ({ name }) => name, encode: once(routeResource) },
  [VIRTUAL_HOST_TYPE]: { nameOf: ({ name }) => name, encode: once(virtualHostResource) },
  [EXTENSION_TYPE]: { nameOf: ({ name }) => name, encode: once(extensionResource) },
  [RUNTIME_TYPE]: { nameOf: ({ runtime }) => runtime.name, encode: once(runtimeResource) },
};

/** How a snapshot was made, so that the next one repeats only what changed. Never holds the snapshot before. */
interface Origin {
  readonly collected: Collected;
  /**
   * Resources to check when the one before was consistent and all names stayed; undefined when everything has to be
   * checked.
   */
  readonly recheck: readonly Resource[] | undefined;
  /** What the check found, once it was asked for. */
  problems: readonly string[] | undefined;
}

/** Beside the snapshots, because a snapshot is plain data that anybody may copy; a copy is worked out as a whole. */
const origins = new WeakMap<Snapshot, Origin>();

/** What a snapshot is made of. The mesh's own route tables hold all of their hosts. */
export interface SnapshotContents extends MeshResources {
  readonly virtualHosts?: readonly VirtualHost[];
}

/**
 * Encodes and hashes what changed since the snapshot before; without one, everything. The result does not depend on that
 * one, and is that one itself when nothing changed.
 */
export function buildSnapshot(resources: SnapshotContents, previous?: Snapshot): Snapshot {
  const before = previous === undefined ? undefined : origins.get(previous);
  const of = <T extends ResourceType>(type: T, messages: readonly MessageOf<T>[]): TypeResources<MessageOf<T>> =>
    collectType<MessageOf<T>>(messages, CODECS[type], before?.collected[type]);
  const collected: Collected = {
    [CLUSTER_TYPE]: of(CLUSTER_TYPE, resources.clusters),
    [ENDPOINT_TYPE]: of(ENDPOINT_TYPE, resources.endpoints),
    [SECRET_TYPE]: of(SECRET_TYPE, resources.secrets ?? NO_SECRETS),
    [LISTENER_TYPE]: of(LISTENER_TYPE, resources.listeners),
    [SCOPE_TYPE]: of(SCOPE_TYPE, resources.scopes),
    [ROUTE_TYPE]: of(ROUTE_TYPE, resources.routes),
    [VIRTUAL_HOST_TYPE]: of(VIRTUAL_HOST_TYPE, resources.virtualHosts ?? NO_HOSTS),
    [EXTENSION_TYPE]: of(EXTENSION_TYPE, resources.extensions),
    [RUNTIME_TYPE]: of(RUNTIME_TYPE, resources.runtimes ?? NO_RUNTIMES),
  };
  const isSame = (type: ResourceType): boolean =>
    collected[type].byName === before?.collected[type].byName && collected[type].duplicates.length === 0;
  if (previous !== undefined && before !== undefined && DELIVERY_ORDER.every(isSame)) {
    // The next comparison is with the messages of now.
    origins.set(previous, { ...before, collected });
    return previous;
  }
  const snapshot: Snapshot = {
    byType: forEachType((type) => collected[type].byName),
    typeVersions: forEachType((type) => formatTypeVersion(collected[type].sum)),
    duplicates: DELIVERY_ORDER.flatMap((type) =>
      collected[type].duplicates.map((name) => `${name} (${type.slice(type.lastIndexOf(".") + 1)})`),
    ),
  };
  origins.set(snapshot, { collected, recheck: toRecheck(before, snapshot), problems: undefined });
  return snapshot;
}

/** What would break an Envoy that gets this snapshot; empty when it may be published. */
export function inconsistencies(snapshot: Snapshot): readonly string[] {
  const origin = origins.get(snapshot);
  if (origin?.problems !== undefined) return origin.problems;
  const problems = origin?.recheck === undefined ? checkAll(snapshot) : checkNeeds(snapshot, origin.recheck);
  if (origin !== undefined) origin.problems = problems;
  return problems;
}

export interface TypeDiff {
  /** Added or changed, in the order of their names. */
  readonly changed: readonly Resource[];
  readonly removed: readonly string[];
}

/**
 * What one type needs to get from one snapshot to another. Of snapshots that follow each other closely the cost is that of
 * what changed, whatever the size of the mesh; of others, that of comparing all resources.
 */
export function diffType(from: Snapshot | undefined, to: Snapshot, type: ResourceType): TypeDiff {
  const changed: Resource[] = [];
  const removed: string[] = [];
  for (const { key, before, after } of changesBetween(from?.byType[type] ?? NO_RESOURCES, to.byType[type])) {
    if (after === undefined) removed.push(key);
    else if (before?.version !== after.version) changed.push(after);
  }
  return { changed: changed.sort((a, b) => (a.name < b.name ? -1 : 1)), removed: removed.sort() };
}

const NO_RESOURCES: ResourceMap = new Map();
/** One list for all, because the same list means that nothing changed. */
const NO_SECRETS: readonly Secret[] = [];
const NO_RUNTIMES: readonly RuntimeLayer[] = [];
const NO_HOSTS: readonly VirtualHost[] = [];

/** What a resource of a type names in another type, and what that is in people's words. */
const NEEDS: Readonly<Partial<Record<ResourceType, { readonly type: ResourceType; readonly what: string }>>> = {
  [ROUTE_TYPE]: { type: CLUSTER_TYPE, what: "cluster" },
  [VIRTUAL_HOST_TYPE]: { type: CLUSTER_TYPE, what: "cluster" },
  [SCOPE_TYPE]: { type: ROUTE_TYPE, what: "route table" },
  [CLUSTER_TYPE]: { type: ENDPOINT_TYPE, what: "endpoint list" },
  [LISTENER_TYPE]: { type: SECRET_TYPE, what: "secret" },
};

function checkAll(snapshot: Snapshot): string[] {
  const { byType } = snapshot;
  const problems = snapshot.duplicates.map((name) => `${name} is listed twice`);
  for (const type of [ROUTE_TYPE, VIRTUAL_HOST_TYPE, SCOPE_TYPE, CLUSTER_TYPE, LISTENER_TYPE] as const) {
    problems.push(...checkNeeds(snapshot, byType[type].values()));
  }
  const used = new Set([...byType[CLUSTER_TYPE].values()].flatMap((cluster) => cluster.needs));
  for (const name of byType[ENDPOINT_TYPE].keys()) {
    if (!used.has(name)) problems.push(`endpoint list ${name} belongs to no cluster`);
  }
  return problems;
}

function checkNeeds({ byType }: Snapshot, resources: Iterable<Resource>): string[] {
  const problems: string[] = [];
  for (const { typeUrl, name, needs } of resources) {
    const wanted = NEEDS[typeUrl];
    if (wanted === undefined) continue;
    for (const need of needs) {
      if (!byType[wanted.type].has(need)) problems.push(`${name} names ${wanted.what} ${need}, which does not exist`);
    }
  }
  return problems;
}

/**
 * After a consistent snapshot, when no name came or went, only what a changed resource names can be wrong. A cluster that
 * names another list could leave its old one without a cluster, so that is checked as a whole.
 */
function toRecheck(before: Origin | undefined, snapshot: Snapshot): Resource[] | undefined {
  if (before?.problems === undefined || before.problems.length > 0 || snapshot.duplicates.length > 0) return undefined;
  const changed: Resource[] = [];
  for (const type of DELIVERY_ORDER) {
    for (const change of changesBetween(before.collected[type].byName, snapshot.byType[type])) {
      if (change.before === undefined || change.after === undefined) return undefined;
      if (type === CLUSTER_TYPE && change.before.needs.join() !== change.after.needs.join()) return undefined;
      changed.push(change.after);
    }
  }
  return changed;
}

/** Groups of Envoys are told of the same messages, which are encoded for the first of them. */
function once<M extends object>(encode: (message: M) => Resource): (message: M) => Resource {
  const known = new WeakMap<M, Resource>();
  return (message) => {
    const resource = known.get(message) ?? encode(message);
    known.set(message, resource);
    return resource;
  };
}

function forEachType<V>(valueFor: (type: ResourceType) => V): Record<ResourceType, V> {
  return Object.fromEntries(DELIVERY_ORDER.map((type) => [type, valueFor(type)])) as Record<ResourceType, V>;
}
