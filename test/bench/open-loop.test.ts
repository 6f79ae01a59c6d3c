import { describe, expect, it } from "vitest";
import { interleave } from "./interleave.js";
import { runOpenLoop } from "./open-loop.js";
import { cpuSecondsOf } from "./process-cpu.js";

describe("runOpenLoop", () => {
  it("sends at its rate although no call has ended, and waits for all of them", async () => {
    let sent = 0;
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const round = runOpenLoop(
      () => {
        if (++sent === 20) release();
        return gate;
      },
      { ratePerSecond: 1000, durationMs: 20 },
    );
    expect((await round).latenciesMs).toHaveLength(20);
  });

  it("never sends before its time and counts failures apart from latencies", async () => {
    let calls = 0;
    const round = await runOpenLoop(
      async () => {
        if (calls++ % 2 === 1) throw new Error("wrong answer");
      },
      { ratePerSecond: 500, durationMs: 20 },
    );
    expect([round.latenciesMs.length, round.failures]).toEqual([5, Array(5).fill("wrong answer")]);
    expect(Math.min(...round.lateMs)).toBeGreaterThanOrEqual(0);
  });
});

describe("interleave", () => {
  it("gives every leg its rounds and begins each round with another one", async () => {
    const order: string[] = [];
    const legs = ["a", "b"].map((name) => ({ name, pids: [process.pid], call: async () => {} }));
    const figures = await interleave(legs, {
      rounds: 2,
      ratePerSecond: 1000,
      roundMs: 5,
      warmUpMs: 1,
      onRound: (round, leg) => order.push(`${round}${leg}`),
    });
    expect(order).toEqual(["0a", "0b", "1b", "1a"]);
    expect(figures.map(({ name, calls, failures }) => ({ name, calls, failures }))).toEqual([
      { name: "a", calls: 10, failures: [] },
      { name: "b", calls: 10, failures: [] },
    ]);
  });
});

describe("cpuSecondsOf", () => {
  it("grows with work and refuses a process that is gone", () => {
    const before = cpuSecondsOf(process.pid);
    for (let spun = 0; cpuSecondsOf(process.pid) === before; spun++)
      if (spun > 1e6) throw new Error("no CPU time seen");
    expect(cpuSecondsOf(process.pid)).toBeGreaterThan(before);
    expect(() => cpuSecondsOf(2 ** 30)).toThrow("is gone");
  });
});
