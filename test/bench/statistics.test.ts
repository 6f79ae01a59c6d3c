import { describe, expect, it } from "vitest";
import { medianOf, quantileOf } from "./statistics.js";

describe("quantileOf and medianOf", () => {
  it("takes the nearest rank, whatever the order of the samples", () => {
    const samples = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect([
      quantileOf(samples, 0.5),
      quantileOf(samples, 0.99),
      quantileOf(samples, 1),
      quantileOf(samples, 0),
    ]).toEqual([50, 99, 100, 1]);
  });

  it("takes the middle, or the mean of both middles", () => {
    expect(medianOf([9, 1, 5])).toBe(5);
    expect(medianOf([4, 1, 2, 3])).toBe(2.5);
  });

  it("is not a number when nothing was measured", () => {
    expect(medianOf([])).toBeNaN();
    expect(quantileOf([], 0.5)).toBeNaN();
  });
});
