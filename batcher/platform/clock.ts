/** A pending callback of a Clock. Cancelling one that has fired is allowed and does nothing. */
export interface Timer {
  cancel(): void;
}

/** All time that the batcher sees. Injected, so that policies are tested on virtual time. */
export interface Clock {
  /** Fractional milliseconds on a monotonic clock. */
  nowMs(): number;
  /** Milliseconds since the Unix epoch, for records and for gRPC deadlines only. */
  wallMs(): number;
  /**
   * Calls back once when `nowMs()` has reached `atMs - earlyMs`, never before and never inside this call. A window that
   * may close a little early passes `earlyMs`, which spares the last fraction of a millisecond of busy waiting.
   */
  schedule(atMs: number, callback: () => void, earlyMs?: number): Timer;
}

/** Longest sleep of one setTimeout; later due times are re-armed. Node fires at once above 2^31 - 1. */
const MAX_SLEEP_MS = 1_000_000_000;

class SystemTimer implements Timer {
  private timeout: NodeJS.Timeout | undefined;
  private immediate: NodeJS.Immediate | undefined;

  constructor(
    private readonly dueMs: number,
    private readonly callback: () => void,
  ) {
    this.arm(dueMs - performance.now());
  }

  cancel(): void {
    if (this.timeout !== undefined) clearTimeout(this.timeout);
    if (this.immediate !== undefined) clearImmediate(this.immediate);
    this.timeout = undefined;
    this.immediate = undefined;
  }

  private arm(remainingMs: number): void {
    // setTimeout cuts fractions off and may fire 0.9 ms early, so the last part is waited out on setImmediate.
    if (remainingMs >= 1) this.timeout = setTimeout(this.check, Math.min(Math.floor(remainingMs), MAX_SLEEP_MS));
    else this.immediate = setImmediate(this.check);
  }

  private readonly check = (): void => {
    this.timeout = undefined;
    this.immediate = undefined;
    const remainingMs = this.dueMs - performance.now();
    if (remainingMs <= 0) this.callback();
    else this.arm(remainingMs);
  };
}

/** The machine's clock. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  schedule: (atMs, callback, earlyMs = 0) => new SystemTimer(atMs - earlyMs, callback),
};
