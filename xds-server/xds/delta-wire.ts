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
  /** Which control plane speaks. */
  readonly identifier: string;
}

/**
 * Bytes of an envoy.service.discovery.v3.DeltaDiscoveryResponse, joined from what is encoded already: 1
 * system_version_info, 2 resources, 4 type_url, 5 nonce, 6 removed_resources, 7 control_plane {1 identifier}.
 */
export function encodeDeltaResponse(response: DeltaResponse): Buffer {
  return Buffer.concat([
    lengthDelimited(1, response.systemVersion),
    ...response.resources.map((resource) => resource.deltaChunk),
    lengthDelimited(4, response.typeUrl),
    lengthDelimited(5, response.nonce),
    ...response.removed.map((name) => lengthDelimited(6, name)),
    lengthDelimited(7, lengthDelimited(1, response.identifier)),
  ]);
}
