import type { MeshIdentity } from "@servemesh/proto/identity";
import { parseIdentity } from "@servemesh/proto/identity";
import { describe, expect, it } from "vitest";
import { judgeNode } from "./node-identity.js";

function judge(role: string, id: string, ...uris: string[]) {
  const peer = uris.map((uri) => parseIdentity(uri) as MeshIdentity);
  return judgeNode(peer, "mesh", { id, role, labels: new Map([["region", "eu"]]) });
}

describe("an Envoy's certificate", () => {
  it("lets in the node that it names, in its role", () => {
    expect(judge("gateway", "edge-1", "spiffe://mesh/gateway/edge-1")).toEqual({});
    expect(judge("sidecar", "shop-1", "spiffe://mesh/gateway/edge-1", "spiffe://mesh/sidecar/shop-1")).toEqual({});
  });

  it("of a gateway record lets in any node, bound to that group", () => {
    expect(judge("gateway", "edge-7", "spiffe://mesh/group/edge")).toEqual({ group: "edge" });
    expect(judge("gateway", "edge", "spiffe://mesh/group/edge")).toEqual({ group: "edge" });
  });

  it.each([
    ["gateway", "edge-2", "spiffe://mesh/gateway/edge-1"],
    ["sidecar", "edge-1", "spiffe://mesh/gateway/edge-1"],
    ["gateway", "edge-1", "spiffe://other/gateway/edge-1"],
    ["gateway", "edge-1", "spiffe://other/group/edge"],
    ["gateway", "edge-1", "spiffe://mesh/batcher/edge-1"],
    ["batcher", "edge-1", "spiffe://mesh/control-plane"],
    ["group", "edge-1", "spiffe://mesh/gateway/edge-1"],
    ["", "", "spiffe://mesh/control-plane"],
  ])("lets in no %s %j with %s, and says what it needs", (role, id, uri) => {
    const wanted = `spiffe://mesh/${role === "sidecar" ? "sidecar" : "gateway"}/${id}`;
    expect(judge(role, id, uri)).toEqual({
      refusal: `node "${id}" of role "${role}" may not connect: its certificate is for ${uri}; give it one for ${wanted}, or for the group of its gateway record`,
    });
  });

  it("that is no part's of a mesh lets in nobody", () => {
    expect(judge("gateway", "edge-1")).toEqual({ refusal: expect.stringContaining("names no part of a mesh") });
  });
});
