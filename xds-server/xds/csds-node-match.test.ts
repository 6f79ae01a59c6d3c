import { NodeMatcher } from "@servemesh/proto/gen/envoy/envoy/type/matcher/v3/node.js";
import { describe, expect, it } from "vitest";
import { matchesNode } from "./csds-node-match.js";

const byId = ($case: string, value: string, ignoreCase = false): NodeMatcher =>
  NodeMatcher.fromPartial({ nodeId: { matchPattern: { $case, value } as never, ignoreCase } });

describe("matchesNode", () => {
  it.each([
    [[], true],
    [[byId("exact", "gateway-1")], true],
    [[byId("exact", "gateway-")], false],
    [[byId("exact", "GATEWAY-1")], false],
    [[byId("exact", "GATEWAY-1", true)], true],
    [[byId("prefix", "gate")], true],
    [[byId("prefix", "way")], false],
    [[byId("prefix", "GATE", true)], true],
    [[byId("exact", "other"), byId("prefix", "gate")], true],
    [[NodeMatcher.fromPartial({})], true],
  ])("case %#", (matchers, expected) => {
    expect(matchesNode(matchers, "gateway-1")).toBe(expected);
  });

  it("refuses kinds that are not offered, also beside one that matches", () => {
    const everything = byId("prefix", "");
    expect(() => matchesNode([everything, byId("suffix", "1")], "gateway-1")).toThrow("must be exact or prefix");
    expect(() => matchesNode([everything, NodeMatcher.fromPartial({ nodeMetadatas: [{}] })], "gateway-1")).toThrow(
      "node_metadatas is not offered; match by node_id",
    );
  });
});
