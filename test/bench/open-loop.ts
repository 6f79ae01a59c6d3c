/** What one round of an open loop saw. */
export interface RoundResult {
  /** Time of each answered call in ms, from its sending. */
  readonly latenciesMs: readonly number[];
  /** Messages of the calls that failed. */
  readonly failures: readonly string[];
  /** How late each call was sent, in ms: what the load generator itself adds. */
  readonly lateMs: readonly number[];
}

/**
 * Sends `call` at a fixed rate for a while, whether answers come or not: a slow server gets no relief (coordinated omission).
 * Resolves when every call has ended.
 * @param call rejects when the answer is not the right one
 */
export async function runOpenLoop(
  call: () => Promise<void>,
  { ratePerSecond, durationMs }: { readonly ratePerSecond: number; readonly durationMs: number },
): Promise<RoundResult> {
  const latenciesMs: number[] = [];
  const failures: string[] = [];
  const lateMs: number[] = [];
  const running = new Set<Promise<void>>();
  const startMs = performance.now();
  const total = Math.floor((durationMs * ratePerSecond) / 1000);
  for (let sent = 0; sent < total; sent++) {
    const dueMs = startMs + (sent * 1000) / ratePerSecond;
    await until(dueMs);
    const sentMs = performance.now();
    lateMs.push(sentMs - dueMs);
    const done = call().then(
      () => void latenciesMs.push(performance.now() - sentMs),
      (error: unknown) => void failures.push(error instanceof Error ? error.message : String(error)),
    );
    running.add(done);
    void done.then(() => running.delete(done));
  }
  await Promise.all(running);
  return { latenciesMs, failures, lateMs };
}

/** A timer may fire up to 1 ms early (its clock is cached and in whole ms); then wait out the rest in turns of the loop. */
async function until(dueMs: number): Promise<void> {
  const waitMs = dueMs - performance.now();
  if (waitMs > 1) await new Promise((resolve) => setTimeout(resolve, waitMs));
  while (performance.now() < dueMs) await new Promise((resolve) => setImmediate(resolve));
}
