/** All time that the control plane sees. Injected, so that leases, timeouts and debouncing are tested on virtual time. */
export interface Clock {
  /** Fractional milliseconds on a monotonic clock. */
  nowMs(): number;
  /** Milliseconds since the Unix epoch, for records and for people only. */
  wallMs(): number;
  /**
   * Runs something once after a delay, never inside this call; the returned function cancels it. After a delay of 0 it
   * runs as soon as what is waiting now has been read and written.
   */
  schedule(delayMs: number, run: () => void): () => void;
}

/** Longest delay of one setTimeout; Node fires at once above 2^31 - 1. */
const DELAY_MAX_MS = 2 ** 31 - 1;

/** The machine's clock. Its timers do not keep the process alive: servers do. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  schedule: (delayMs, run) => {
    if (delayMs <= 0) {
      const turn = setImmediate(run);
      turn.unref();
      return () => clearImmediate(turn);
    }
    const timer = setTimeout(run, Math.min(delayMs, DELAY_MAX_MS));
    timer.unref();
    return () => clearTimeout(timer);
  },
};
