import { describe, expect, it } from "vitest";
import {
  formBatch,
  type LaneState,
  pickDueLane,
  releaseDueMs,
  retryAfterMs,
  windowToleranceMs,
} from "./release-policy.js";

const LIMITS = { maxBatchRows: 8, maxDelayMs: 4 };
const lane = (state: Partial<LaneState>): LaneState => ({
  leg: "primary",
  rows: 1,
  oldestAtMs: 100,
  earliestDeadlineAtMs: Number.POSITIVE_INFINITY,
  ...state,
});

describe("releaseDueMs", () => {
  it("is the end of the oldest member's window", () => {
    expect(releaseDueMs(lane({}), LIMITS, 0)).toBe(104);
    expect(releaseDueMs(lane({}), { ...LIMITS, maxDelayMs: 0.2 }, 0)).toBe(100.2);
  });

  it("is now for a full lane", () => {
    expect(releaseDueMs(lane({ rows: 8 }), LIMITS, 0)).toBe(Number.NEGATIVE_INFINITY);
  });

  it("comes forward to the latest start that still meets the tightest deadline", () => {
    expect(releaseDueMs(lane({ earliestDeadlineAtMs: 113 }), LIMITS, 11)).toBe(102);
  });
});

describe("pickDueLane", () => {
  it("picks none before its time", () => {
    expect(pickDueLane([lane({})], LIMITS, 0, 103.9)).toBeUndefined();
  });

  it("does not starve a rare shape behind one that is always full", () => {
    const rare = lane({ oldestAtMs: 90 });
    expect(pickDueLane([lane({ rows: 8, oldestAtMs: 99 }), rare], LIMITS, 0, 100)).toBe(rare);
  });

  it("serves the primary leg before the shadow", () => {
    const primary = lane({ oldestAtMs: 99 });
    expect(pickDueLane([lane({ leg: "shadow", oldestAtMs: 1 }), primary], LIMITS, 0, 110)).toBe(primary);
  });
});

describe("formBatch", () => {
  const rows = (...counts: number[]) => counts.map((count) => ({ rows: count }));

  it("takes as many as fit, in order", () => {
    expect(formBatch(rows(3, 4, 1, 1), 8)).toHaveLength(3);
  });

  it("stops at the first that does not fit, so that a large one is not passed for ever", () => {
    expect(formBatch(rows(3, 7, 1), 8)).toHaveLength(1);
  });
});

describe("windowToleranceMs", () => {
  it("never rounds a sub-millisecond window away", () => {
    expect(windowToleranceMs(0.2)).toBeCloseTo(0.05);
    expect(windowToleranceMs(4)).toBe(1);
    expect(windowToleranceMs(50)).toBe(1);
  });
});

describe("retryAfterMs", () => {
  it("is the time to serve what waits, and never zero", () => {
    expect(retryAfterMs(64, 8, 1, 10)).toBe(90);
    expect(retryAfterMs(64, 8, 1, 0)).toBe(1);
  });
});
