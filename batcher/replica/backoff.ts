/** Delays between attempts to reach something again. */
export interface Backoff {
  readonly firstMs: number;
  readonly maxMs: number;
}

/**
 * Exponential, with half of the delay random, so that many clients of one restarted server spread out.
 * @param attempt 0 for the first retry
 * @param random in [0, 1)
 */
export function backoffDelayMs(backoff: Backoff, attempt: number, random: number): number {
  const ceiling = Math.min(backoff.maxMs, backoff.firstMs * 2 ** Math.min(attempt, 30));
  return ceiling / 2 + (ceiling / 2) * random;
}
