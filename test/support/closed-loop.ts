/** One call of a closed loop and how it went. */
export interface LoopCall<T> {
  readonly client: number;
  readonly startedMs: number;
  readonly endedMs: number;
  readonly answer?: T;
  /** Set when the call rejected. */
  readonly error?: Error;
}

export interface ClosedLoop<T> {
  /** All calls that have ended, in the order of their end. */
  readonly calls: readonly LoopCall<T>[];
  /** Lets running calls end and resolves with all of them. */
  stop(): Promise<readonly LoopCall<T>[]>;
}

/** `clients` callers, each of which sends its next call when the one before has ended, until `stop`. */
export function startClosedLoop<T>(clients: number, call: (client: number) => Promise<T>): ClosedLoop<T> {
  const calls: LoopCall<T>[] = [];
  let stopped = false;
  const callers = Array.from({ length: clients }, async (_, client) => {
    while (!stopped) {
      const startedMs = performance.now();
      try {
        const answer = await call(client);
        calls.push({ client, startedMs, endedMs: performance.now(), answer });
      } catch (error) {
        const wrapped = error instanceof Error ? error : new Error(String(error));
        calls.push({ client, startedMs, endedMs: performance.now(), error: wrapped });
        // A client that fails at once must not spin the only core that could mend things.
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    }
  });
  return {
    calls,
    stop: async () => {
      stopped = true;
      await Promise.all(callers);
      return calls;
    },
  };
}
