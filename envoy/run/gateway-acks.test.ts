import type { AdminClient } from "@servemesh/xds-server";
import { expect, it } from "vitest";
import { ackedRoutes, waitRoutesAcked } from "./gateway-acks.js";

const ROUTES = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";

/** A control plane whose Envoy acknowledges these versions, one per question. */
function adminThatSays(versions: (string | undefined)[]): AdminClient {
  const getStatus = async () => {
    const acked = versions.length > 1 ? versions.shift() : versions[0];
    const types = [
      { typeUrl: "type.googleapis.com/other", ackedVersion: "other" },
      ...(acked === undefined ? [] : [{ typeUrl: ROUTES, ackedVersion: acked }]),
    ];
    return { nodes: [{ nodeId: "gateway-1", types }] };
  };
  return { getStatus } as unknown as AdminClient;
}

it("tells the acknowledged version of the routes, not of another type", async () => {
  expect(await ackedRoutes(adminThatSays(["v1"]))).toBe("v1");
  expect(await ackedRoutes(adminThatSays([undefined]))).toBeUndefined();
  expect(await ackedRoutes({ getStatus: async () => ({ nodes: [] }) } as unknown as AdminClient)).toBeUndefined();
});

it("waits for another version than before", async () => {
  expect(await waitRoutesAcked(adminThatSays(["v1", "v1", "v2"]), "v1", 10_000)).toBeGreaterThan(0);
  expect(await waitRoutesAcked(adminThatSays(["v1"]), "v1", 50)).toBeUndefined();
});
