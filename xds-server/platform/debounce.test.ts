import { describe, expect, it } from "vitest";
import { debounce } from "./debounce.js";
import { ManualClock } from "./manual-clock.js";

function recorded(): { clock: ManualClock; runsAtMs: number[]; debounced: ReturnType<typeof debounce> } {
  const clock = new ManualClock(0);
  const runsAtMs: number[] = [];
  const debounced = debounce(
    clock,
    () => ({ quietMs: 2, capMs: 20 }),
    () => runsAtMs.push(clock.nowMs()),
  );
  return { clock, runsAtMs, debounced };
}

describe("debounce", () => {
  it("joins a burst and runs after the quiet time", () => {
    const { clock, runsAtMs, debounced } = recorded();
    for (let ask = 0; ask < 5; ask += 1) {
      debounced.ask();
      clock.advance(1);
    }
    clock.advance(100);
    expect(runsAtMs).toEqual([6]);
    debounced.ask();
    clock.advance(100);
    expect(runsAtMs).toEqual([6, 107]);
  });

  it("runs at the cap when it is never quiet, again and again", () => {
    const { clock, runsAtMs, debounced } = recorded();
    for (let ask = 0; ask < 60; ask += 1) {
      debounced.ask();
      clock.advance(1);
    }
    expect(runsAtMs).toEqual([20, 40, 60]);
  });

  it("does nothing after it was cancelled, and leaves no timer", () => {
    const { clock, runsAtMs, debounced } = recorded();
    debounced.ask();
    debounced.cancel();
    clock.advance(100);
    expect([runsAtMs, clock.pendingTimers]).toEqual([[], 0]);
  });
});
