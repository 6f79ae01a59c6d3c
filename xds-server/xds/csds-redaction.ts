import { createHash } from "node:crypto";
import { anyToReadableJson } from "@servemesh/proto/any-json";
import { DeltaDiscoveryResponse } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import type { Any } from "@servemesh/proto/gen/envoy/google/protobuf/any.js";
import type { Resource } from "../snapshot/resource.js";

/** What stands for a secret. */
const REDACTED = "[redacted]";

/** Fields below which every text is secret, but for names of files: of Secret, TlsCertificate, JwtProvider and OAuth. */
const SECRET_FIELDS: ReadonlySet<string> = new Set([
  "privateKey",
  "privateKeyProvider",
  "pkcs12",
  "password",
  "sessionTicketKeys",
  "genericSecret",
  "localJwks",
  "hmacSecret",
  "tokenSecret",
  "clientSecret",
]);
/** Fields that hold whole files. */
const BINARY_FIELDS: ReadonlySet<string> = new Set(["inlineBytes", "protoDescriptorBin"]);
/** Plugin configurations; the gate's has the digests of all API keys. */
const OPAQUE_TYPES: ReadonlySet<string> = new Set([
  "type.googleapis.com/google.protobuf.BytesValue",
  "type.googleapis.com/google.protobuf.StringValue",
]);
const SECRET_HEADER = /authorization|cookie|api-?key|token|secret|password/i;

/** A resource for people's eyes. */
export interface ReadableContent {
  readonly json: unknown;
  /** True when something was left out of it. */
  readonly isRedacted: boolean;
}

/** The message in an encoded resource; an empty one of a name that stands for nothing (see absentHost). */
export function contentOf(resource: Resource): Any {
  // The chunk is field `resources` of a response, so it is a response by itself.
  const any = DeltaDiscoveryResponse.decode(resource.deltaChunk).resources[0]?.resource;
  return any ?? { typeUrl: resource.typeUrl, value: Buffer.alloc(0) };
}

/**
 * A message as JSON without secrets: private keys, passwords and secret headers are cut out; files and plugin configurations
 * are given by digest and length, so that two can be compared.
 */
export function readableContent(any: Any): ReadableContent {
  const redaction = new Redaction();
  const json = redaction.visit(anyToReadableJson(any), "", false);
  return { json, isRedacted: redaction.didRedact };
}

class Redaction {
  didRedact = false;

  /** @param field name of the field that holds the value @param isSecret whether it lies below a secret field */
  visit(value: unknown, field: string, isSecret: boolean): unknown {
    if (Array.isArray(value)) return value.map((item) => this.visit(item, field, isSecret));
    if (typeof value === "object" && value !== null)
      return this.#visitObject(value as Record<string, unknown>, isSecret);
    if (typeof value !== "string") return value;
    if (isSecret && field !== "filename" && field !== "@type") return this.#cut(REDACTED);
    return BINARY_FIELDS.has(field) ? this.#cut(digest(Buffer.from(value, "base64"))) : value;
  }

  #visitObject(object: Record<string, unknown>, isSecret: boolean): unknown {
    const { "@type": type, key, value } = object;
    // An Any that could not be opened may hold anything.
    const isOpaque = OPAQUE_TYPES.has(String(type)) || "@problem" in object;
    if (isOpaque && typeof value === "string") {
      const encoding = String(type).endsWith("StringValue") ? "utf8" : "base64";
      return { ...object, value: this.#cut(isSecret ? REDACTED : digest(Buffer.from(value, encoding))) };
    }
    if (typeof key === "string" && typeof value === "string" && SECRET_HEADER.test(key)) {
      return { ...object, value: this.#cut(REDACTED) };
    }
    return Object.fromEntries(
      Object.entries(object).map(([field, item]) => [
        field,
        this.visit(item, field, isSecret || SECRET_FIELDS.has(field)),
      ]),
    );
  }

  #cut(text: string): string {
    this.didRedact = true;
    return text;
  }
}

function digest(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex").slice(0, 16)} (${bytes.length} bytes)`;
}
