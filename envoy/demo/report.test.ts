import { describe, expect, it } from "vitest";
import { checkAtLeast, checkBetween, checkEqual, checkOneOf } from "./check.js";
import { formatStages, formatStory, formatSummary, toJsonReport } from "./report.js";

describe("checks", () => {
  it("pass only for what must hold", () => {
    expect(checkEqual("a", 200, 200)).toEqual({ name: "a", pass: true, value: 200, expected: 200 });
    expect(checkEqual("a", undefined, "x")).toEqual({ name: "a", pass: false, value: null, expected: "x" });
    expect([2.4, 2.5, 7.5, 7.6, Number.NaN].map((value) => checkBetween("b", value, 2.5, 7.5).pass)).toEqual([
      false,
      true,
      true,
      false,
      false,
    ]);
    expect([checkAtLeast("c", 0, 1).pass, checkAtLeast("c", 1, 1).pass]).toEqual([false, true]);
    expect(checkOneOf("d", "42", ["41", "42"])).toMatchObject({ pass: true, expected: "41 or 42" });
    expect(checkOneOf("d", undefined, ["41"]).pass).toBe(false);
  });
});

describe("report", () => {
  const good = checkEqual("status", 200, 200);
  const bad = checkEqual("failed calls", 3, 0);

  it("tells what happened, and of what failed what came and what had to come", () => {
    const text = formatStory(4, "a call", { checks: [good, bad], lines: ["it took long"] }, 1.25);
    expect(text.split("\n")).toEqual([
      " 4. a call  [FAILED, 2 checks, 1.3 s]",
      "      it took long",
      "      NOT AS EXPECTED: failed calls: got 3, expected 0",
    ]);
    expect(formatStory(1, "a call", { checks: [good], lines: [] }, 0)).toBe(" 1. a call  [ok, 1 checks, 0.0 s]");
  });

  it("counts the checks", () => {
    expect(formatSummary([good, bad], 12.34)).toBe("1 of 2 checks passed in 12.3 s");
    expect(toJsonReport([good, bad]).ok).toBe(false);
    expect(toJsonReport([good])).toEqual({ ok: true, checks: [good] });
  });

  it("is not ok when nothing was checked", () => {
    expect(toJsonReport([]).ok).toBe(false);
  });

  it("writes stages with two digits", () => {
    expect(
      formatStages(
        new Map([
          ["gate", 0.0491],
          ["queue", 6],
        ]),
      ),
    ).toBe("gate 0.05, queue 6.00 ms");
  });
});
