import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ServiceTime } from "./service-time.js";

const MAX_SAMPLES = 64;
const MAX_AGE_MS = 10_000;

/** The same three figures from a plain list. */
function figuresOf(samples: readonly { atMs: number; durationMs: number }[], nowMs: number): number[] {
  const fresh = samples.slice(-MAX_SAMPLES).filter(({ atMs }) => atMs >= nowMs - MAX_AGE_MS);
  const sorted = fresh.map(({ durationMs }) => durationMs).sort((a, b) => a - b);
  return [0, 0.5, 0.95].map((share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0);
}

describe("ServiceTime", () => {
  it("knows nothing at first, and forgets what is older than 10 s", () => {
    const times = new ServiceTime();
    expect(times.medianMs(0)).toBe(0);
    times.record(5, 0);
    expect([times.floorMs(10_000), times.floorMs(10_001)]).toEqual([5, 0]);
  });

  it("gives the figures of a plain sorted window, whatever comes and whenever it is asked", () => {
    const step = fc.record({
      afterMs: fc.integer({ min: 0, max: 2_000 }),
      durationMs: fc.integer({ min: 0, max: 20 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const times = new ServiceTime();
        const samples: { atMs: number; durationMs: number }[] = [];
        let nowMs = 0;
        for (const { afterMs, durationMs } of steps) {
          nowMs += afterMs;
          times.record(durationMs, nowMs);
          samples.push({ atMs: nowMs, durationMs });
          const askedMs = nowMs + (durationMs % 3) * 400;
          nowMs = askedMs;
          expect([times.floorMs(askedMs), times.medianMs(askedMs), times.slowMs(askedMs)]).toEqual(
            figuresOf(samples, askedMs),
          );
        }
      }),
      { seed: 7, numRuns: 300 },
    );
  });
});
