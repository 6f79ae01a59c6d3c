import { Cluster } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import { ClusterLoadAssignment } from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/endpoint.js";
import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import { DeltaDiscoveryResponse } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { buildSnapshot } from "@servemesh/xds-server";
import { CLUSTER_TYPE, ENDPOINT_TYPE, LISTENER_TYPE, ROUTE_TYPE } from "./resource-kinds.js";

/** What the server under test publishes. */
export type Snapshot = ReturnType<typeof buildSnapshot>;

type ResourceType = keyof Snapshot["byType"];
type Resource = Snapshot["byType"][ResourceType] extends ReadonlyMap<string, infer R> ? R : never;

/** Resources of one type by name, and the version of the type as a whole. */
export interface VersionedType {
  readonly version: string;
  readonly resources: ReadonlyMap<string, { readonly content: Uint8Array; readonly version: string }>;
}

/**
 * A snapshot whose versions are given instead of made from the contents. Clients take an equal version for an equal
 * content, so whoever gives them has to use another one for another content.
 * @param types by type URL; a type that is left out is empty and keeps the version that the server makes
 */
export function forcedSnapshot(types: ReadonlyMap<string, VersionedType>): Snapshot {
  const contents = (typeUrl: string): Uint8Array[] =>
    [...(types.get(typeUrl)?.resources.values() ?? [])].map(({ content }) => content);
  const made = buildSnapshot({
    clusters: contents(CLUSTER_TYPE).map((bytes) => Cluster.decode(bytes)),
    endpoints: contents(ENDPOINT_TYPE).map((bytes) => ClusterLoadAssignment.decode(bytes)),
    listeners: contents(LISTENER_TYPE).map((bytes) => Listener.decode(bytes)),
    routes: contents(ROUTE_TYPE).map((bytes) => RouteConfiguration.decode(bytes)),
    scopes: [],
    extensions: [],
  });
  const byType: Record<ResourceType, ReadonlyMap<string, Resource>> = { ...made.byType };
  const typeVersions: Record<ResourceType, string> = { ...made.typeVersions };
  for (const typeUrl of Object.keys(byType) as ResourceType[]) {
    const given = types.get(typeUrl);
    if (given === undefined) continue;
    typeVersions[typeUrl] = given.version;
    byType[typeUrl] = new Map(
      [...made.byType[typeUrl]].map(([name, resource]) => {
        return [name, withVersion(resource, given.resources.get(name)?.version ?? resource.version)];
      }),
    );
  }
  return { byType, typeVersions, duplicates: made.duplicates };
}

/** The version stands in the encoded bytes too: field `resources` of a delta response, which is a message with that alone. */
function withVersion(resource: Resource, version: string): Resource {
  const response = DeltaDiscoveryResponse.decode(resource.deltaChunk);
  const resources = response.resources.map((entry) => ({ ...entry, version }));
  const deltaChunk = Buffer.from(DeltaDiscoveryResponse.encode({ ...response, resources }).finish());
  return { ...resource, version, deltaChunk };
}
