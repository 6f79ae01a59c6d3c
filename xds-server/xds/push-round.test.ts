import { describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { PushRound } from "./push-round.js";

/** A round whose visits take 3 ms each. */
function slowRound() {
  const clock = new ManualClock();
  const visited: string[] = [];
  let doneCount = 0;
  const round = new PushRound<string>(
    { nowMs: () => clock.nowMs() + 3 * visited.length, schedule: (delayMs, run) => clock.schedule(delayMs, run) },
    (stream) => visited.push(stream),
    () => {
      doneCount += 1;
    },
  );
  return { clock, round, visited, doneCount: () => doneCount };
}

describe("push round", () => {
  it("visits few streams at once", () => {
    const { round, visited, doneCount } = slowRound();
    round.start(["a", "b"]);
    expect(visited).toEqual(["a", "b"]);
    expect(doneCount()).toBe(1);
  });

  it("rule 45: leaves the process free between slices, and goes on by itself", () => {
    const { clock, round, visited, doneCount } = slowRound();
    round.start(["a", "b", "c", "d", "e"]);
    expect(visited).toEqual(["a", "b", "c"]);
    expect(doneCount()).toBe(0);
    clock.advance(0);
    expect(visited).toEqual(["a", "b", "c", "d", "e"]);
    expect(doneCount()).toBe(1);
  });

  it("rule 44: who has not been visited is visited once for two states, before those who come again", () => {
    const { clock, round, visited } = slowRound();
    const streams = ["a", "b", "c", "d", "e"];
    round.start(streams);
    round.start(streams);
    while (round.isBehind("c")) clock.advance(0);
    expect(visited).toEqual(["a", "b", "c", "d", "e", "a", "b", "c"]);
  });

  it("passes over who was taken out", () => {
    const { clock, round, visited } = slowRound();
    round.start(["a", "b", "c", "d", "e"]);
    expect(round.take("d")).toBe(true);
    expect(round.take("a")).toBe(false);
    clock.advance(0);
    expect(visited).toEqual(["a", "b", "c", "e"]);
  });
});
