import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import { DiscoveryResponse, Resource } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { Runtime } from "@servemesh/proto/gen/envoy/envoy/service/runtime/v3/rtds.js";
import { describe, expect, it } from "vitest";
import { routeResource, runtimeResource } from "../snapshot/resource.js";
import { ROUTE_TYPE, RUNTIME_TYPE } from "../snapshot/resource-types.js";
import type { ResourceForm } from "./delta-wire.js";
import { encodeSotwResponse, sotwChunk } from "./sotw-wire.js";

describe("encodeSotwResponse", () => {
  it("joins bytes that decode to what they say, for short and long names and bodies", () => {
    const names = ["a", "n".repeat(300)];
    const resources = names.map((name) =>
      routeResource(RouteConfiguration.fromPartial({ name, internalOnlyHeaders: [name.repeat(100)] })),
    );
    const bytes = encodeSotwResponse({
      typeUrl: ROUTE_TYPE,
      nonce: "7",
      versionInfo: "v",
      resources,
      form: "plain",
      identifier: "cp-1",
    });
    const decoded = DiscoveryResponse.decode(bytes);
    expect(decoded).toMatchObject({
      typeUrl: ROUTE_TYPE,
      nonce: "7",
      versionInfo: "v",
      controlPlane: { identifier: "cp-1" },
    });
    expect(decoded.resources.map(({ typeUrl }) => typeUrl)).toEqual([ROUTE_TYPE, ROUTE_TYPE]);
    expect(decoded.resources.map(({ value }) => RouteConfiguration.decode(value).name)).toEqual(names);
  });

  it("rule 33: wraps what has a limit of time for clients that know of it, and nothing for others", () => {
    const runtime = Runtime.fromPartial({ name: "layer", layer: { a: 1 } });
    const resources = [runtimeResource({ runtime, ttlMs: 5_000 })];
    const inForm = (form: ResourceForm) => {
      const bytes = encodeSotwResponse({
        typeUrl: RUNTIME_TYPE,
        nonce: "1",
        versionInfo: "v",
        resources,
        form,
        identifier: "",
      });
      return DiscoveryResponse.decode(bytes).resources[0];
    };
    expect(inForm("plain")?.typeUrl).toBe(RUNTIME_TYPE);
    const version = resources[0]?.version;
    const limited = inForm("limited");
    expect(limited?.typeUrl).toBe("type.googleapis.com/envoy.service.discovery.v3.Resource");
    expect(Resource.decode(limited?.value ?? Buffer.alloc(0))).toMatchObject({
      name: "layer",
      version,
      ttl: { seconds: 5 },
      resource: { typeUrl: RUNTIME_TYPE, value: Buffer.from(Runtime.encode(runtime).finish()) },
    });
  });

  it("takes the bytes out of the delta form without a copy", () => {
    const { deltaChunk } = routeResource(RouteConfiguration.fromPartial({ name: "a" }));
    expect(sotwChunk(deltaChunk).buffer).toBe(deltaChunk.buffer);
  });

  it("refuses bytes that hold no resource", () => {
    expect(() => sotwChunk(Buffer.from([0x12, 0x03, 0x1a, 0x01, 0x61]))).toThrow(/without content/);
    expect(() => sotwChunk(Buffer.from([0x12, 0x80]))).toThrow(/within a length/);
  });
});
