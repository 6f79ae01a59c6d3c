import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import { DeltaDiscoveryResponse } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { Runtime } from "@servemesh/proto/gen/envoy/envoy/service/runtime/v3/rtds.js";
import { describe, expect, it } from "vitest";
import { absentHost, routeResource, runtimeResource } from "../snapshot/resource.js";
import { ROUTE_TYPE, RUNTIME_TYPE } from "../snapshot/resource-types.js";
import { encodeDeltaResponse, type ResourceForm } from "./delta-wire.js";

describe("encodeDeltaResponse", () => {
  it("joins bytes that decode to what they say", () => {
    const resources = ["routes/a", "routes/b"].map((name) => routeResource(RouteConfiguration.fromPartial({ name })));
    const bytes = encodeDeltaResponse({
      typeUrl: ROUTE_TYPE,
      nonce: "7",
      systemVersion: "v",
      resources,
      removed: ["a", "b"],
      form: "plain",
      identifier: "cp-1",
    });
    const decoded = DeltaDiscoveryResponse.decode(bytes);
    expect(decoded).toMatchObject({
      typeUrl: ROUTE_TYPE,
      nonce: "7",
      systemVersionInfo: "v",
      removedResources: ["a", "b"],
      controlPlane: { identifier: "cp-1" },
    });
    expect(decoded.resources.map(({ name, version }) => ({ name, version }))).toEqual(
      resources.map(({ name, version }) => ({ name, version })),
    );
    const table = RouteConfiguration.decode(decoded.resources[0]?.resource?.value ?? Buffer.alloc(0));
    expect(table.name).toBe(decoded.resources[0]?.name);
  });

  it("rule 33: says the limit of time of a resource, and of a heartbeat nothing but that", () => {
    const runtime = Runtime.fromPartial({ name: "layer", layer: { a: 1 } });
    const resources = [runtimeResource({ runtime, ttlMs: 5_000 })];
    const inForm = (form: ResourceForm) => {
      const response = {
        typeUrl: RUNTIME_TYPE,
        nonce: "1",
        systemVersion: "v",
        resources,
        removed: [],
        identifier: "",
      };
      return DeltaDiscoveryResponse.decode(encodeDeltaResponse({ ...response, form })).resources[0];
    };
    const plain = inForm("plain");
    expect(plain).toMatchObject({ name: "layer", resource: { typeUrl: RUNTIME_TYPE } });
    expect(plain?.ttl).toBeUndefined();
    expect(inForm("limited")).toEqual({ ...plain, ttl: { seconds: 5, nanos: 0 } });
    expect(inForm("heartbeat")).toEqual({ ...plain, ttl: { seconds: 5, nanos: 0 }, resource: undefined });
  });

  it("rule 43: names a virtual host that does not exist, also as an alias, without content", () => {
    const [resource] = DeltaDiscoveryResponse.decode(absentHost("table/a.example").deltaChunk).resources;
    expect(resource).toMatchObject({ name: "table/a.example", aliases: ["table/a.example"], resource: undefined });
    expect(resource?.version).not.toBe("");
  });

  it("writes long names and large resources with right lengths", () => {
    const name = "n".repeat(300);
    const resource = routeResource(RouteConfiguration.fromPartial({ name, internalOnlyHeaders: ["h".repeat(20_000)] }));
    const response = {
      typeUrl: ROUTE_TYPE,
      nonce: "1",
      systemVersion: "",
      removed: [],
      form: "plain",
      identifier: "",
    } as const;
    const decoded = DeltaDiscoveryResponse.decode(
      encodeDeltaResponse({ ...response, resources: [resource, resource] }),
    );
    expect(decoded.resources.map((entry) => entry.name)).toEqual([name, name]);
  });
});
