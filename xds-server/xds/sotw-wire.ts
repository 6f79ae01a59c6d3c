import type { Resource } from "../snapshot/resource.js";
import { lengthDelimited } from "../snapshot/wire.js";
import { limitedResource, type ResourceForm } from "./delta-wire.js";

/** Content of one DiscoveryResponse. */
export interface SotwResponse {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly versionInfo: string;
  readonly resources: readonly Resource[];
  readonly form: ResourceForm;
  /** Which control plane speaks. */
  readonly identifier: string;
}

/**
 * Bytes of an envoy.service.discovery.v3.DiscoveryResponse, joined from what is encoded already: 1 version_info,
 * 2 resources, 4 type_url, 5 nonce, 6 control_plane {1 identifier}.
 */
export function encodeSotwResponse(response: SotwResponse): Buffer {
  return Buffer.concat([
    lengthDelimited(1, response.versionInfo),
    ...response.resources.map((resource) => stateChunk(resource, response.form)),
    lengthDelimited(4, response.typeUrl),
    lengthDelimited(5, response.nonce),
    lengthDelimited(6, lengthDelimited(1, response.identifier)),
  ]);
}

const RESOURCE_TYPE = "type.googleapis.com/envoy.service.discovery.v3.Resource";

/** State of the world has no place for a limit of time beside a resource, so one with a limit travels as a delta Resource. */
function stateChunk(resource: Resource, form: ResourceForm): Buffer {
  const limited = limitedResource(resource, form);
  if (limited === undefined) return sotwChunk(resource.deltaChunk);
  return lengthDelimited(2, Buffer.concat([lengthDelimited(1, RESOURCE_TYPE), lengthDelimited(2, limited)]));
}

/** Field 2, length-delimited: `resources` of both responses, and `resource` (the Any) of a delta Resource. */
const FIELD_2 = 0x12;

/**
 * Field `resources` of a DiscoveryResponse, as a view into the same field of a DeltaDiscoveryResponse. The Any stands in
 * field 2 of the delta Resource and belongs into field 2 of the DiscoveryResponse, so not one byte has to be copied.
 * @throws Error when the bytes are no delta Resource with an Any
 */
export function sotwChunk(deltaChunk: Buffer): Buffer {
  const [, wrapped] = lengthAt(deltaChunk, 1);
  for (let at = wrapped; at < deltaChunk.length; ) {
    const [length, content] = lengthAt(deltaChunk, at + 1);
    if (deltaChunk[at] === FIELD_2) return deltaChunk.subarray(at, content + length);
    at = content + length;
  }
  throw new Error("a delta resource without content cannot be sent as state of the world");
}

/** The varint at an offset, and the offset behind it. */
function lengthAt(bytes: Buffer, offset: number): [length: number, end: number] {
  let length = 0;
  let factor = 1;
  for (let at = offset; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    length += (byte & 0x7f) * factor;
    if (byte < 0x80) return [length, at + 1];
    factor *= 128;
  }
  throw new Error("a delta resource ends within a length");
}
