import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { DeadlineWatch } from "./deadline-watch.js";

describe("DeadlineWatch", () => {
  it("expires in order of deadlines, each at its time", async () => {
    const clock = new ManualClock(0);
    const watch = new DeadlineWatch(clock);
    const fired: [number, number][] = [];
    for (const at of [30, 10, 20, 10]) watch.add(at, () => fired.push([at, clock.nowMs()]));
    await clock.advance(100);
    expect(fired).toEqual([
      [10, 10],
      [10, 10],
      [20, 20],
      [30, 30],
    ]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("never expires a removed entry, nor one without a deadline", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 50 }), fc.boolean()), { maxLength: 60 }),
        async (plan) => {
          const clock = new ManualClock(0);
          const watch = new DeadlineWatch(clock);
          const fired: number[] = [];
          const entries = plan.map(([at]) => watch.add(at, () => fired.push(at)));
          watch.add(Number.POSITIVE_INFINITY, () => fired.push(-1));
          for (const [index, [, removed]] of plan.entries()) {
            const entry = entries[index];
            if (removed && entry !== undefined) watch.remove(entry);
          }
          await clock.advance(60);
          const expected = plan.filter(([, removed]) => !removed).map(([at]) => at);
          expect(fired).toEqual(expected.sort((a, b) => a - b));
          expect(watch.size).toBe(0);
          expect(clock.pendingTimers).toBe(0);
        },
      ),
      { numRuns: 50 },
    );
  });

  it("lets an expiring entry remove others", async () => {
    const clock = new ManualClock(0);
    const watch = new DeadlineWatch(clock);
    const fired: string[] = [];
    const later = watch.add(20, () => fired.push("later"));
    watch.add(10, () => {
      fired.push("first");
      watch.remove(later);
      watch.remove(later);
    });
    await clock.advance(30);
    expect(fired).toEqual(["first"]);
  });
});
