import { describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { StreamAge } from "./stream-age.js";

const HOUR_MS = 3_600_000;

/** A stream that becomes 10 h old and `fraction` of two hours more. */
function stream(fraction: number) {
  const clock = new ManualClock();
  const seen = { overCount: 0 };
  const age = new StreamAge(clock, { random: () => fraction }, () => {
    seen.overCount += 1;
  });
  return { clock, age, seen };
}

describe("the age of a stream", () => {
  it.each([
    [0, 10],
    [0.5, 11],
    [0.9999, 11.9998],
  ])("is over, for a fraction of %d, after %d h, once", (fraction, hours) => {
    const { clock, age, seen } = stream(fraction);
    age.acknowledged();
    clock.advance(hours * HOUR_MS - 1);
    expect(seen.overCount).toBe(0);
    clock.advance(2);
    expect(seen.overCount).toBe(1);
    age.acknowledged();
    clock.advance(100 * HOUR_MS);
    expect(seen.overCount).toBe(1);
    expect(clock.pendingTimers).toBe(0);
  });

  it("rule 6: waits for the first acknowledgement, and then for the end of the request that has it", () => {
    const { clock, age, seen } = stream(0);
    clock.advance(50 * HOUR_MS);
    expect(seen.overCount).toBe(0);
    age.acknowledged();
    age.acknowledged();
    expect(seen.overCount).toBe(0);
    clock.advance(0);
    expect(seen.overCount).toBe(1);
  });

  it("leaves nothing behind when the stream is gone before", () => {
    const early = stream(0);
    early.age.cancel();
    const late = stream(0);
    late.clock.advance(11 * HOUR_MS);
    late.age.acknowledged();
    late.age.cancel();
    for (const { clock, seen } of [early, late]) {
      clock.advance(20 * HOUR_MS);
      expect([seen.overCount, clock.pendingTimers]).toEqual([0, 0]);
    }
  });
});
