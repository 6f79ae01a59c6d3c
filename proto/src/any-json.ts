import type { Any } from "../gen/envoy/google/protobuf/any.js";
import { typeRegistry } from "../gen/envoy/type-registry.js";

const TYPE_PREFIX = "type.googleapis.com/";
/** Nested Any deeper than this is not from us; it stays base64. */
const DEPTH_MAX = 16;

/**
 * Readable JSON of an Envoy message: proto3 JSON with every nested `google.protobuf.Any` opened as
 * `{"@type": …, …fields}`. Two differences from canonical proto3 JSON, for reading: wrapper messages inside an Any are
 * `{"@type", "value"}` with their plain value, and an Any whose type or bytes are unknown stays
 * `{"@type", "value": <base64>, "@problem": …}` instead of failing the whole dump.
 * @param typeUrl full name with or without "type.googleapis.com/"
 * @throws Error when the type of the outer message is unknown or its bytes are not such a message
 */
export function messageToReadableJson(typeUrl: string, bytes: Uint8Array): unknown {
  const codec = codecOf(typeUrl);
  if (codec === undefined) {
    throw new Error(`message type ${typeUrl} is not in the registry; list it in proto/codegen/buf.gen.envoy.yaml`);
  }
  return openFields(codec.toJSON(codec.decode(bytes) as never), 0);
}

/** The same for an Any: its fields beside "@type". Never throws. */
export function anyToReadableJson(any: Any): unknown {
  return openAny(any.typeUrl, Buffer.from(any.value), 0);
}

function codecOf(typeUrl: string) {
  return typeRegistry.get(typeUrl.slice(typeUrl.lastIndexOf("/") + 1));
}

/**
 * ts-proto writes an Any as exactly `{typeUrl, value: base64}`. Both parts are omitted when empty, so a lone
 * `{typeUrl}` is an Any of an all-default message.
 */
function isAnyJson(value: Record<string, unknown>): value is { typeUrl: string; value?: string } {
  const keys = Object.keys(value);
  if (typeof value.typeUrl !== "string" || !value.typeUrl.startsWith(TYPE_PREFIX)) return false;
  return keys.length === 1 || (keys.length === 2 && typeof value.value === "string");
}

function openAnys(value: unknown, depth: number): unknown {
  if (Array.isArray(value)) return value.map((item) => openAnys(item, depth));
  if (typeof value !== "object" || value === null) return value;
  const object = value as Record<string, unknown>;
  if (isAnyJson(object)) return openAny(object.typeUrl, Buffer.from(object.value ?? "", "base64"), depth + 1);
  return openFields(object, depth);
}

/** Opens what a message holds, but not the message itself: a DeltaDiscoveryRequest of one typeUrl looks like an Any. */
function openFields(json: unknown, depth: number): unknown {
  if (typeof json !== "object" || json === null || Array.isArray(json)) return openAnys(json, depth);
  return Object.fromEntries(Object.entries(json).map(([key, item]) => [key, openAnys(item, depth)]));
}

function openAny(typeUrl: string, bytes: Uint8Array, depth: number): unknown {
  const shut = (problem: string) => ({
    "@type": typeUrl,
    value: Buffer.from(bytes).toString("base64"),
    "@problem": problem,
  });
  if (depth > DEPTH_MAX) return shut(`nested more than ${DEPTH_MAX} deep`);
  const codec = codecOf(typeUrl);
  if (codec === undefined) return shut("unknown type");
  let json: unknown;
  try {
    json = codec.toJSON(codec.decode(bytes) as never);
  } catch {
    return shut("the bytes are not a message of this type");
  }
  const opened = openFields(json, depth);
  const isMessage = typeof opened === "object" && opened !== null && !Array.isArray(opened);
  return isMessage ? { "@type": typeUrl, ...opened } : { "@type": typeUrl, value: opened };
}
