import type { Clock } from "../platform/clock.js";

/** How long streams are served in one go, in ms: requests that came in meanwhile wait no longer than this. */
const SLICE_MS = 8;

/**
 * Streams that are still to be given the present state, oldest first. They are visited in slices of time, between which
 * the process reads requests and writes what was sent, so that a push to 10,000 streams blocks nobody; whoever is not yet
 * visited when the state changes once more is given the newer one only.
 */
export class PushRound<Stream> {
  readonly #clock: Pick<Clock, "nowMs" | "schedule">;
  readonly #visit: (stream: Stream) => void;
  readonly #onDone: () => void;
  readonly #behind = new Set<Stream>();
  #isScheduled = false;

  /**
   * @param visit gives a stream the present state
   * @param onDone called when nobody is left
   */
  constructor(clock: Pick<Clock, "nowMs" | "schedule">, visit: (stream: Stream) => void, onDone: () => void) {
    this.#clock = clock;
    this.#visit = visit;
    this.#onDone = onDone;
  }

  /** Streams that have not been given the present state yet. */
  get behindCount(): number {
    return this.#behind.size;
  }

  /** There is a new state for these; the first of them are visited within this call. */
  start(streams: Iterable<Stream>): void {
    for (const stream of streams) this.#behind.add(stream);
    if (!this.#isScheduled) this.#run();
  }

  /** Takes a stream out, because it is gone or is visited out of turn; true when it had not been visited yet. */
  take(stream: Stream): boolean {
    return this.#behind.delete(stream);
  }

  /** True when a stream has not been given the present state yet. */
  isBehind(stream: Stream): boolean {
    return this.#behind.has(stream);
  }

  #run(): void {
    const untilMs = this.#clock.nowMs() + SLICE_MS;
    for (const stream of this.#behind) {
      this.#behind.delete(stream);
      this.#visit(stream);
      if (this.#clock.nowMs() >= untilMs) break;
    }
    if (this.#behind.size === 0) {
      this.#onDone();
      return;
    }
    this.#isScheduled = true;
    this.#clock.schedule(0, () => {
      this.#isScheduled = false;
      this.#run();
    });
  }
}
