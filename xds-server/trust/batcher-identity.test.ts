import { type MeshIdentity, parseIdentity } from "@servemesh/proto/identity";
import { describe, expect, it } from "vitest";
import { BatcherRanges, batcherProblem } from "./batcher-identity.js";

describe("a batcher's certificate", () => {
  const problem = (...uris: string[]) =>
    batcherProblem(
      uris.map((uri) => parseIdentity(uri) as MeshIdentity),
      "mesh",
      "ranker",
    );

  it("lets it register the model that it names", () => {
    expect(problem("spiffe://mesh/batcher/ranker")).toBeUndefined();
    expect(problem("spiffe://mesh/batcher/echo", "spiffe://mesh/batcher/ranker")).toBeUndefined();
  });

  it.each(["spiffe://mesh/batcher/echo", "spiffe://other/batcher/ranker", "spiffe://mesh/gateway/ranker"])(
    "for %s lets it register no ranker, and says what it needs",
    (uri) => {
      expect(problem(uri)).toBe(
        `hello.model ranker may not be registered by this batcher: its certificate is for ${uri}; give it one for spiffe://mesh/batcher/ranker`,
      );
    },
  );

  it("that is no part's of a mesh lets it register nothing", () => {
    expect(problem()).toContain("names no part of a mesh");
  });
});

describe("ranges of batchers' addresses", () => {
  it("hold what is in one of them", () => {
    const ranges = new BatcherRanges(["10.1.0.0/16", "fd00:1::/32"]);
    expect(["10.1.0.0", "10.1.255.255", "fd00:1::7", "::ffff:10.1.2.3"].map((ip) => ranges.includes(ip))).toEqual([
      true,
      true,
      true,
      true,
    ]);
    expect(["10.2.0.0", "fd00:2::7", "127.0.0.1", "", "localhost"].some((ip) => ranges.includes(ip))).toBe(false);
    expect(new BatcherRanges([]).includes("10.1.0.0")).toBe(false);
  });

  it.each(["", "10.1.0.0", "10.1.0.0/33", "10.1/16", "fd00::/129", "x/8", "10.1.0.0/-1"])("refuse %j", (range) => {
    expect(() => new BatcherRanges([range])).toThrow(`--batcher-range: "${range}" is no range of addresses; write`);
  });
});
