import { describe, expect, it } from "vitest";
import { answerOf } from "./answer-fixture.js";
import { sendCalls, startLoad } from "./load.js";
import type { PredictAnswer } from "./predict-client.js";

/** A callee that lets its callers wait until they are released, and knows how many wait. */
function gate() {
  const waiting: (() => void)[] = [];
  let most = 0;
  return {
    call: (): Promise<PredictAnswer> =>
      new Promise((resolve) => {
        waiting.push(() => resolve(answerOf()));
        most = Math.max(most, waiting.length);
      }),
    release: (): void => {
      for (const answer of waiting.splice(0)) answer();
    },
    mostAtOnce: (): number => most,
  };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("sendCalls", () => {
  it("sends exactly as many as asked, and never more at once than there are clients", async () => {
    const callee = gate();
    let done = false;
    const sending = sendCalls(10, 4, callee.call).finally(() => {
      done = true;
    });
    while (!done) {
      callee.release();
      await turn();
    }
    expect((await sending).length).toBe(10);
    expect(callee.mostAtOnce()).toBe(4);
  });
});

describe("startLoad", () => {
  it("goes on until it is stopped, and then waits for the calls under way", async () => {
    const callee = gate();
    const load = startLoad(3, callee.call);
    for (let round = 0; round < 3; round += 1) {
      callee.release();
      await turn();
    }
    expect(load.answers.length).toBeGreaterThanOrEqual(6);
    const before = load.answers.length;
    const stopping = load.stop();
    callee.release();
    expect((await stopping).length).toBe(before + 3);
    expect((await load.stop()).length).toBe(before + 3);
  });
});
