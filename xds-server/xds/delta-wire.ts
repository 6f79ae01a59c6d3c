import type { Resource } from "../snapshot/resource.js";
import { lengthDelimited } from "../snapshot/wire.js";

/** Content of one DeltaDiscoveryResponse. */
export interface DeltaResponse {
  readonly typeUrl: string;
  readonly nonce: string;
  /** Version of the whole type, for people who read dumps; clients only look at each resource's own. */
  readonly systemVersion: string;
  readonly resources: readonly Resource[];
  readonly removed: readonly string[];
  readonly form: ResourceForm;
  /** Which control plane speaks. */
  readonly identifier: string;
}

/**
 * What a response says of resources that have a limit of time: nothing, to clients that know of none; their content with the
 * limit; or only that they count for as long again.
 */
export type ResourceForm = "plain" | "limited" | "heartbeat";

/** An envoy.service.discovery.v3.Resource of a resource with a limit of time; undefined when it is sent without. */
export function limitedResource({ version, expiry }: Resource, form: ResourceForm): Buffer | undefined {
  if (form === "plain" || expiry === undefined) return undefined;
  return Buffer.concat([lengthDelimited(1, version), form === "heartbeat" ? expiry.heartbeat : expiry.limited]);
}

/** Field `resources` of a DeltaDiscoveryResponse. */
function chunkOf(resource: Resource, form: ResourceForm): Buffer {
  const limited = limitedResource(resource, form);
  return limited === undefined ? resource.deltaChunk : lengthDelimited(2, limited);
}

/**
 * Bytes of an envoy.service.discovery.v3.DeltaDiscoveryResponse, joined from what is encoded already: 1
 * system_version_info, 2 resources, 4 type_url, 5 nonce, 6 removed_resources, 7 control_plane {1 identifier}.
 */
export function encodeDeltaResponse(response: DeltaResponse): Buffer {
  return Buffer.concat([
    lengthDelimited(1, response.systemVersion),
    ...response.resources.map((resource) => chunkOf(resource, response.form)),
    lengthDelimited(4, response.typeUrl),
    lengthDelimited(5, response.nonce),
    ...response.removed.map((name) => lengthDelimited(6, name)),
    lengthDelimited(7, lengthDelimited(1, response.identifier)),
  ]);
}
