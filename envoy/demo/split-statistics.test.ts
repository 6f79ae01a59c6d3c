import { describe, expect, it } from "vitest";
import { answerOf } from "./answer-fixture.js";
import { countSplit, percentile, sharePercent } from "./split-statistics.js";

const stable = answerOf();
const canary = answerOf({ servedBy: "ranker:42" });
const failed = answerOf({ status: 429, servedBy: "ranker:42", reason: "overloaded", text: "full" });

describe("countSplit", () => {
  it("counts good answers by version and failures apart, so that a failing canary does not look served", () => {
    const split = countSplit([stable, canary, stable, failed, stable]);
    expect([split.total, split.failed, split.firstFailure]).toEqual([5, 1, "429 overloaded full"]);
    expect(Object.fromEntries(split.byVersion)).toEqual({ "ranker:41": 3, "ranker:42": 1 });
    expect(sharePercent(split, "ranker:42")).toBe(25);
  });

  it("counts a fallback under what it said of itself", () => {
    const split = countSplit([stable, answerOf({ servedBy: "ranker-lite:1; fallback=saturated" })]);
    expect(sharePercent(split, "ranker:41")).toBe(50);
    expect(split.byVersion.get("ranker-lite:1; fallback=saturated")).toBe(1);
  });

  it("has no share without good answers", () => {
    expect(sharePercent(countSplit([failed]), "ranker:42")).toBe(0);
    expect(countSplit([]).firstFailure).toBeUndefined();
  });

  it("rounds shares to two digits", () => {
    expect(sharePercent(countSplit([canary, stable, stable]), "ranker:42")).toBe(33.33);
  });
});

describe("percentile", () => {
  it("takes the nearest rank of unsorted values", () => {
    expect([0, 0.5, 0.99, 1].map((p) => percentile([30, 10, 20, 40], p))).toEqual([10, 20, 40, 40]);
    expect(percentile([], 0.5)).toBeNaN();
  });
});
