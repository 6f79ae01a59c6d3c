import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { clusterName, modelOf } from "./names.js";

const reference = fc
  .tuple(fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,20}$/), fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }))
  .map(([model, version]) => `${model}:${version}`);

describe("clusterName", () => {
  it("tells apart what looks alike", () => {
    expect(clusterName("ranker-4:1")).not.toBe(clusterName("ranker:41"));
    expect(clusterName("ranker:41")).toBe("model/ranker/41");
  });

  it("is injective", () => {
    fc.assert(
      fc.property(reference, reference, (a, b) => {
        expect(clusterName(a) === clusterName(b)).toBe(a === b);
        expect(clusterName(a)).toContain(modelOf(a));
      }),
    );
  });
});
