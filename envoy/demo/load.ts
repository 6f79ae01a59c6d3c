import type { PredictAnswer } from "./predict-client.js";

/** A closed loop: `clients` callers, each sending its next call when the last one is answered. */
export interface Load {
  /** All answers so far, in the order in which they came. */
  readonly answers: readonly PredictAnswer[];
  /** Lets the calls under way finish and sends no more. */
  stop(): Promise<readonly PredictAnswer[]>;
}

/**
 * Starts a load that goes on until it is stopped.
 * @param call sends one call; it must not reject
 */
export function startLoad(clients: number, call: () => Promise<PredictAnswer>): Load {
  const answers: PredictAnswer[] = [];
  let stopped = false;
  const loops = Array.from({ length: clients }, async () => {
    while (!stopped) answers.push(await call());
  });
  return {
    answers,
    stop: async () => {
      stopped = true;
      await Promise.all(loops);
      return answers;
    },
  };
}

/** Sends exactly `count` calls, `clients` at a time. */
export async function sendCalls(
  count: number,
  clients: number,
  call: () => Promise<PredictAnswer>,
): Promise<readonly PredictAnswer[]> {
  const answers: PredictAnswer[] = [];
  let sent = 0;
  const loop = async (): Promise<void> => {
    while (sent < count) {
      sent += 1;
      answers.push(await call());
    }
  };
  await Promise.all(Array.from({ length: clients }, loop));
  return answers;
}
