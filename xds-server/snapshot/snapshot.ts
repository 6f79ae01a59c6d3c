import type { MeshResources } from "../translate/translate.js";
import {
  clusterResource,
  contentHash,
  endpointResource,
  extensionResource,
  listenerResource,
  type Resource,
  routeResource,
  scopeResource,
} from "./resource.js";
import {
  CLUSTER_TYPE,
  DELIVERY_ORDER,
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  LISTENER_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  SCOPE_TYPE,
} from "./resource-types.js";

/** All resources of one type by name. */
export type ResourceMap = ReadonlyMap<string, Resource>;

/** One complete state of what Envoys shall hold. Immutable; resources that did not change are shared with the one before. */
export interface Snapshot {
  readonly byType: Readonly<Record<ResourceType, ResourceMap>>;
  /** Hash over names and contents of one type. */
  readonly typeVersions: Readonly<Record<ResourceType, string>>;
  /** Names that were given twice; the first one counts. A snapshot with any is not consistent. */
  readonly duplicates: readonly string[];
}

/** @param previous source of bytes for what did not change */
export function buildSnapshot(resources: MeshResources, previous?: Snapshot): Snapshot {
  const duplicates: string[] = [];
  const collect = (type: ResourceType, encoded: Resource[]): ResourceMap => {
    const byName = new Map<string, Resource>();
    for (const resource of encoded.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const before = previous?.byType[type].get(resource.name);
      if (byName.has(resource.name)) duplicates.push(`${resource.name} (${type.slice(type.lastIndexOf(".") + 1)})`);
      else byName.set(resource.name, before?.version === resource.version ? before : resource);
    }
    return byName;
  };
  const byType: Record<ResourceType, ResourceMap> = {
    [CLUSTER_TYPE]: collect(CLUSTER_TYPE, resources.clusters.map(clusterResource)),
    [ENDPOINT_TYPE]: collect(ENDPOINT_TYPE, resources.endpoints.map(endpointResource)),
    [LISTENER_TYPE]: collect(LISTENER_TYPE, resources.listeners.map(listenerResource)),
    [SCOPE_TYPE]: collect(SCOPE_TYPE, resources.scopes.map(scopeResource)),
    [ROUTE_TYPE]: collect(ROUTE_TYPE, resources.routes.map(routeResource)),
    [EXTENSION_TYPE]: collect(EXTENSION_TYPE, resources.extensions.map(extensionResource)),
  };
  const typeVersions = Object.fromEntries(DELIVERY_ORDER.map((type) => [type, versionOf(byType[type])])) as Record<
    ResourceType,
    string
  >;
  return { byType, typeVersions, duplicates };
}

/** What would break an Envoy that gets this snapshot; empty when it may be published. */
export function inconsistencies(snapshot: Snapshot): string[] {
  const { byType } = snapshot;
  const problems = snapshot.duplicates.map((name) => `${name} is listed twice`);
  const demand = (from: ResourceType, to: ResourceType, what: string): void => {
    for (const resource of byType[from].values()) {
      for (const need of resource.needs) {
        if (!byType[to].has(need)) problems.push(`${resource.name} names ${what} ${need}, which does not exist`);
      }
    }
  };
  demand(ROUTE_TYPE, CLUSTER_TYPE, "cluster");
  demand(SCOPE_TYPE, ROUTE_TYPE, "route table");
  demand(CLUSTER_TYPE, ENDPOINT_TYPE, "endpoint list");
  const used = new Set([...byType[CLUSTER_TYPE].values()].flatMap((cluster) => cluster.needs));
  for (const name of byType[ENDPOINT_TYPE].keys()) {
    if (!used.has(name)) problems.push(`endpoint list ${name} belongs to no cluster`);
  }
  return problems;
}

export interface TypeDiff {
  /** Added or changed. */
  readonly changed: readonly Resource[];
  readonly removed: readonly string[];
}

/** What one type needs to get from one snapshot to the next. */
export function diffType(from: Snapshot | undefined, to: Snapshot, type: ResourceType): TypeDiff {
  const before = from?.byType[type] ?? new Map<string, Resource>();
  const after = to.byType[type];
  const changed = [...after.values()].filter((resource) => before.get(resource.name)?.version !== resource.version);
  const removed = [...before.keys()].filter((name) => !after.has(name));
  return { changed, removed };
}

function versionOf(resources: ResourceMap): string {
  // Maps are filled in sorted order, so equal content gives equal text.
  return contentHash([...resources.values()].map(({ name, version }) => `${name} ${version}\n`).join(""));
}
