import type { Clock } from "./clock.js";

interface Pending {
  readonly atMs: number;
  readonly run: () => void;
}

/** Virtual time for tests: nothing falls due until `advance` is called. */
export class ManualClock implements Clock {
  #nowMs: number;
  readonly #wallOffsetMs: number;
  readonly #pending = new Set<Pending>();

  constructor(startMs = 1_000, wallOffsetMs = 1_700_000_000_000) {
    this.#nowMs = startMs;
    this.#wallOffsetMs = wallOffsetMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return this.#wallOffsetMs + this.#nowMs;
  }

  schedule(delayMs: number, run: () => void): () => void {
    const entry: Pending = { atMs: this.#nowMs + delayMs, run };
    this.#pending.add(entry);
    return () => void this.#pending.delete(entry);
  }

  /** Timers that have not fired; 0 at the end of a test shows that none leaks. */
  get pendingTimers(): number {
    return this.#pending.size;
  }

  /** Moves time on, firing what falls due in order of time, then of scheduling. */
  advance(deltaMs: number): void {
    const endMs = this.#nowMs + deltaMs;
    for (let next = this.#next(endMs); next !== undefined; next = this.#next(endMs)) {
      this.#pending.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.run();
    }
    this.#nowMs = endMs;
  }

  #next(endMs: number): Pending | undefined {
    let best: Pending | undefined;
    for (const entry of this.#pending) {
      // A Set keeps the order of scheduling, so "earlier" alone is enough.
      if (entry.atMs <= endMs && (best === undefined || entry.atMs < best.atMs)) best = entry;
    }
    return best;
  }
}
