import { describe, expect, it } from "vitest";
import { systemClock } from "./clock.js";

const lateness = (delayMs: number, earlyMs = 0): Promise<number> => {
  const dueMs = systemClock.nowMs() + delayMs;
  return new Promise((resolve) => systemClock.schedule(dueMs, () => resolve(systemClock.nowMs() - dueMs), earlyMs));
};

describe("systemClock.schedule", () => {
  it("never calls back early, also for fractions of a millisecond (C052)", async () => {
    for (const delayMs of [0, 0.2, 0.9, 1, 1.5, 2.7, 4, 7.3]) {
      for (let round = 0; round < 5; round += 1) expect(await lateness(delayMs)).toBeGreaterThanOrEqual(0);
    }
  });

  it("may be early by what was allowed, and no more", async () => {
    for (let round = 0; round < 10; round += 1) expect(await lateness(4, 1)).toBeGreaterThanOrEqual(-1);
  });

  it("never calls back inside schedule, nor after cancel", async () => {
    let calls = 0;
    systemClock.schedule(systemClock.nowMs() - 5, () => {
      calls += 1;
    });
    const cancelled = systemClock.schedule(systemClock.nowMs() + 1, () => {
      calls += 10;
    });
    expect(calls).toBe(0);
    cancelled.cancel();
    await lateness(5);
    expect(calls).toBe(1);
  });
});
