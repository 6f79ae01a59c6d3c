import { Cluster } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import { DeltaDiscoveryResponse } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { describe, expect, it } from "vitest";
import { clusterResource } from "../snapshot/resource.js";
import { CLUSTER_TYPE } from "../snapshot/resource-types.js";
import { type ResponseContent, SharedResponses } from "./shared-responses.js";

const a = clusterResource(Cluster.fromPartial({ name: "a" }));
const b = clusterResource(Cluster.fromPartial({ name: "b" }));

function content(more: Partial<ResponseContent> = {}): ResponseContent {
  return { typeUrl: CLUSTER_TYPE, systemVersion: "v1", contents: [a], removed: [], form: "plain", ...more };
}

describe("shared responses", () => {
  it("streams that are sent the same share one message", () => {
    const responses = new SharedResponses("one");
    const first = responses.compose("delta", content(), 0);
    const second = responses.compose("delta", content({ contents: [a] }), 0);
    expect(second.bytes).toBe(first.bytes);
    expect(DeltaDiscoveryResponse.decode(first.bytes).nonce).toBe(String(first.number));
  });

  it("a stream that is sent the same again gets a nonce of its own", () => {
    const responses = new SharedResponses("one");
    const first = responses.compose("delta", content(), 0);
    const again = responses.compose("delta", content(), first.number);
    expect(again.number).toBeGreaterThan(first.number);
    expect(DeltaDiscoveryResponse.decode(again.bytes).nonce).toBe(String(again.number));
  });

  it.each([
    ["version", content({ systemVersion: "v2" })],
    ["resources", content({ contents: [b] })],
    ["fewer resources", content({ contents: [] })],
    ["removed names", content({ removed: ["c"] })],
  ])("another %s is another message", (_, other) => {
    const responses = new SharedResponses("one");
    expect(responses.compose("delta", other, 0).number).not.toBe(responses.compose("delta", content(), 0).number);
  });

  it("the two protocols never share a message", () => {
    const responses = new SharedResponses("one");
    expect(responses.compose("sotw", content(), 0).number).not.toBe(responses.compose("delta", content(), 0).number);
  });

  it("remembers only a few messages, and none of a state that is past", () => {
    const responses = new SharedResponses("one");
    const first = responses.compose("delta", content(), 0);
    for (const version of ["w", "x", "y", "z"]) responses.compose("delta", content({ systemVersion: version }), 0);
    expect(responses.compose("delta", content(), 0).number).not.toBe(first.number);
    const last = responses.compose("delta", content(), 0);
    responses.forget();
    expect(responses.compose("delta", content(), 0).number).toBeGreaterThan(last.number);
  });
});
