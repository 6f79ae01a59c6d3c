import { LoadStatsRequest } from "@servemesh/proto/gen/envoy/envoy/service/load_stats/v3/lrs.js";
import { describe, expect, it } from "vitest";
import { withoutNode } from "./lrs-wire.js";

const clusterStats = [
  { clusterName: "ranker/41", upstreamLocalityStats: [{ totalIssuedRequests: 2 ** 40, totalSuccessfulRequests: 3 }] },
  { clusterName: "x".repeat(300) },
];
const encode = (message: object): Buffer =>
  Buffer.from(LoadStatsRequest.encode(LoadStatsRequest.fromPartial(message)).finish());

describe("withoutNode", () => {
  it("leaves exactly the figures of a report", () => {
    const metadata = { padding: "y".repeat(60_000) };
    const full = encode({ node: { id: "gateway-1", metadata }, clusterStats });
    const bare = withoutNode(full);
    expect(bare).toEqual(encode({ clusterStats }));
    expect(full.length).toBeGreaterThan(60_000);
    expect(LoadStatsRequest.decode(bare).node).toBeUndefined();
    expect(withoutNode(bare)).toEqual(bare);
    expect(withoutNode(Buffer.alloc(0))).toEqual(Buffer.alloc(0));
  });

  it("keeps fields that it does not know, of every wire type", () => {
    const unknown = Buffer.from([0x18, 0x96, 0x01, 0x21, 1, 2, 3, 4, 5, 6, 7, 8, 0x2d, 1, 2, 3, 4]);
    expect(withoutNode(Buffer.concat([encode({ node: { id: "a" } }), unknown]))).toEqual(unknown);
  });

  it.each([
    ["a length beyond the end", [0x12, 0x05, 1, 2], "cut off"],
    ["a number without an end", [0x18, 0x80], "cut off"],
    ["a number that is too long", [0x18, ...Array<number>(11).fill(0x80)], "a number is too long"],
    ["a group", [0x1b], "unknown wire type"],
    ["a huge length", [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "cut off"],
  ])("refuses %s", (_, bytes, problem) => {
    expect(() => withoutNode(Buffer.from(bytes))).toThrow(problem);
  });
});
