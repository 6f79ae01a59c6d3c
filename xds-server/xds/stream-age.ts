import type { Clock } from "../platform/clock.js";

/** How old a stream may become. */
export interface StreamAgeSettings {
  readonly minMs: number;
  readonly maxMs: number;
  /** A fraction from 0 up to, but not including, 1, for each stream another. */
  random(): number;
}

const HOUR_MS = 3_600_000;

export const STREAM_AGE: StreamAgeSettings = { minMs: 10 * HOUR_MS, maxMs: 12 * HOUR_MS, random: Math.random };

/**
 * The age of one stream. It is ended at a random age, so that clients that came together do not come back together, and
 * spread over the control planes that there are by then. A stream on which nothing was acknowledged is left for as long as that
 * takes: gRPC clients report the end of such a stream as an error, and back off.
 */
export class StreamAge {
  readonly #clock: Pick<Clock, "schedule">;
  readonly #onOver: () => void;
  #cancelTimer: () => void;
  #isAcknowledged = false;
  #isOver = false;

  /** @param onOver called once, never within a call of this */
  constructor(clock: Pick<Clock, "schedule">, settings: Partial<StreamAgeSettings>, onOver: () => void) {
    this.#clock = clock;
    this.#onOver = onOver;
    const { minMs, maxMs, random } = { ...STREAM_AGE, ...settings };
    this.#cancelTimer = clock.schedule(minMs + random() * (maxMs - minMs), () => this.#pass());
  }

  /** The client took a response. */
  acknowledged(): void {
    if (this.#isAcknowledged) return;
    this.#isAcknowledged = true;
    // Not within the request that acknowledges, which may lead to another response.
    if (this.#isOver) this.#cancelTimer = this.#clock.schedule(0, this.#onOver);
  }

  /** The stream is gone. */
  cancel(): void {
    this.#cancelTimer();
  }

  #pass(): void {
    this.#isOver = true;
    if (this.#isAcknowledged) this.#onOver();
  }
}
