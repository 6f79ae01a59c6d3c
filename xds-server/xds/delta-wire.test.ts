import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import { DeltaDiscoveryResponse } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { describe, expect, it } from "vitest";
import { routeResource } from "../snapshot/resource.js";
import { ROUTE_TYPE } from "../snapshot/resource-types.js";
import { encodeDeltaResponse } from "./delta-wire.js";

describe("encodeDeltaResponse", () => {
  it("joins bytes that decode to what they say", () => {
    const resources = ["routes/a", "routes/b"].map((name) => routeResource(RouteConfiguration.fromPartial({ name })));
    const bytes = encodeDeltaResponse({
      typeUrl: ROUTE_TYPE,
      nonce: "7",
      systemVersion: "v",
      resources,
      removed: ["a", "b"],
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

  it("writes long names and large resources with right lengths", () => {
    const name = "n".repeat(300);
    const resource = routeResource(RouteConfiguration.fromPartial({ name, internalOnlyHeaders: ["h".repeat(20_000)] }));
    const response = { typeUrl: ROUTE_TYPE, nonce: "1", systemVersion: "", removed: [], identifier: "" };
    const decoded = DeltaDiscoveryResponse.decode(
      encodeDeltaResponse({ ...response, resources: [resource, resource] }),
    );
    expect(decoded.resources.map((entry) => entry.name)).toEqual([name, name]);
  });
});
