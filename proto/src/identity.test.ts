import { describe, expect, it } from "vitest";
import { identitiesOf, identityUri, parseIdentity } from "./identity.js";

describe("parseIdentity", () => {
  it.each([
    ["spiffe://mesh/control-plane", { trustDomain: "mesh", kind: "control-plane", name: "" }],
    ["spiffe://prod.example/gateway/edge-1", { trustDomain: "prod.example", kind: "gateway", name: "edge-1" }],
    ["spiffe://mesh/group/edge", { trustDomain: "mesh", kind: "group", name: "edge" }],
    ["spiffe://mesh/batcher/ranker", { trustDomain: "mesh", kind: "batcher", name: "ranker" }],
  ])("reads %s, and identityUri writes it", (uri, identity) => {
    expect(parseIdentity(uri)).toEqual(identity);
    expect(identityUri(identity as Parameters<typeof identityUri>[0])).toBe(uri);
  });

  it.each([
    "spiffe://mesh/gateway",
    "spiffe://mesh/gateway/",
    "spiffe://mesh/group",
    "spiffe://mesh/control-plane/x",
    "spiffe://mesh/gateway/a/b",
    "spiffe://mesh/operator/a",
    "spiffe:///gateway/a",
    "https://mesh/gateway/a",
    "spiffe://Mesh/gateway/a",
    "spiffe://mesh/gateway/a\nspiffe://mesh/gateway/b",
    " spiffe://mesh/gateway/a",
  ])("finds none in %j", (uri) => {
    expect(parseIdentity(uri)).toBeUndefined();
  });
});

describe("identitiesOf", () => {
  it("takes the URIs of a certificate and passes over other names", () => {
    const text = "DNS:localhost, URI:spiffe://mesh/batcher/ranker, URI:spiffe://mesh/batcher/echo, URI:https://mesh/";
    expect(identitiesOf(text).map(({ name }) => name)).toEqual(["ranker", "echo"]);
    expect(identitiesOf(undefined)).toEqual([]);
  });

  it("is not led astray by a name that holds a list of names", () => {
    expect(identitiesOf('URI:"https://a/, URI:spiffe://mesh/gateway/a"')).toEqual([]);
    expect(identitiesOf('DNS:"x, URI:spiffe://mesh/gateway/a"')).toEqual([]);
  });
});
