import { describe, expect, it } from "vitest";
import { Cluster } from "../gen/envoy/envoy/config/cluster/v3/cluster.js";
import { TypedExtensionConfig } from "../gen/envoy/envoy/config/core/v3/extension.js";
import { RetryPolicy } from "../gen/envoy/envoy/config/route/v3/route_components.js";
import { Wasm } from "../gen/envoy/envoy/extensions/filters/http/wasm/v3/wasm.js";
import { Any } from "../gen/envoy/google/protobuf/any.js";
import { BytesValue } from "../gen/envoy/google/protobuf/wrappers.js";
import { typeRegistry } from "../gen/envoy/type-registry.js";
import { anyToReadableJson, messageToReadableJson } from "./any-json.js";

const anyOf = (typeName: string, value: Uint8Array) => ({
  typeUrl: `type.googleapis.com/${typeName}`,
  value: Buffer.from(value),
});

function gateConfig(): Uint8Array {
  const configuration = anyOf(BytesValue.$type, BytesValue.encode({ value: Buffer.from([1, 2, 3]) }).finish());
  const wasm = Wasm.fromPartial({ config: { name: "gate", configuration } });
  const typedConfig = anyOf(Wasm.$type, Wasm.encode(wasm).finish());
  return TypedExtensionConfig.encode({ name: "gate", typedConfig }).finish();
}

describe("messageToReadableJson", () => {
  it("opens an Any inside an Any", () => {
    expect(messageToReadableJson(TypedExtensionConfig.$type, gateConfig())).toEqual({
      name: "gate",
      typedConfig: {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
        config: {
          name: "gate",
          configuration: { "@type": "type.googleapis.com/google.protobuf.BytesValue", value: "AQID" },
        },
      },
    });
  });

  it("takes the type with its prefix too, and keeps names in lowerCamelCase", () => {
    const bytes = Cluster.encode(
      Cluster.fromPartial({ name: "model/ranker/41", connectTimeout: { seconds: 1, nanos: 0 } }),
    ).finish();
    expect(messageToReadableJson(`type.googleapis.com/${Cluster.$type}`, bytes)).toMatchObject({
      name: "model/ranker/41",
      connectTimeout: expect.anything(),
    });
  });

  it("keeps what it cannot open, and says why", () => {
    const strange = anyOf("example.Unknown", Buffer.from([9]));
    const broken = anyOf(Cluster.$type, Buffer.from([0x0a, 0xff]));
    expect(anyToReadableJson(strange)).toMatchObject({ value: "CQ==", "@problem": "unknown type" });
    expect(anyToReadableJson(broken)).toMatchObject({ "@problem": expect.stringContaining("not a message") });
  });

  it("names an unknown outer type", () => {
    expect(() => messageToReadableJson("example.Unknown", new Uint8Array())).toThrow(
      /example\.Unknown.*buf\.gen\.envoy/,
    );
  });
});

describe("the generated code", () => {
  it("has the field that the packaged protos lack", () => {
    const bytes = RetryPolicy.encode(RetryPolicy.fromPartial({ refreshClusterOnRetry: true })).finish();
    expect([...bytes]).toEqual([14 * 8, 1]);
  });

  it("has JSON names everywhere (an empty one would be dropped without a word)", () => {
    const json = Any.toJSON({ typeUrl: "x", value: Buffer.alloc(1) }) as Record<string, unknown>;
    expect(Object.keys(json)).toEqual(["typeUrl", "value"]);
    expect(typeRegistry.size).toBeGreaterThan(400);
  });
});
