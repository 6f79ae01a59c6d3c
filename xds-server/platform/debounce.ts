import type { Clock } from "./clock.js";

export interface DebounceTimes {
  /** Runs when this long nothing was asked for. */
  readonly quietMs: number;
  /** Runs at the latest this long after the first ask, however busy it is. */
  readonly capMs: number;
}

export interface Debounced {
  /** Asks for a run; asks of one burst share it. */
  ask(): void;
  cancel(): void;
}

/**
 * Joins bursts: a transaction's many changes become one run. `run` must not throw.
 * @param times asked at each ask, so that they may follow how long runs take
 */
export function debounce(clock: Clock, times: () => DebounceTimes, run: () => void): Debounced {
  let firstAskMs: number | undefined;
  let cancelTimer: () => void = () => undefined;
  const fire = (): void => {
    firstAskMs = undefined;
    run();
  };
  return {
    ask() {
      const nowMs = clock.nowMs();
      const { quietMs, capMs } = times();
      firstAskMs ??= nowMs;
      cancelTimer();
      const untilCapMs = firstAskMs + capMs - nowMs;
      cancelTimer = clock.schedule(Math.max(0, Math.min(quietMs, untilCapMs)), fire);
    },
    cancel() {
      firstAskMs = undefined;
      cancelTimer();
    },
  };
}
