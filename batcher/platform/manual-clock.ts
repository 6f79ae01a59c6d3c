import type { Clock, Timer } from "./clock.js";

interface Pending {
  readonly atMs: number;
  readonly order: number;
  readonly callback: () => void;
}

/** Virtual time for tests: nothing happens until `advance` is called. */
export class ManualClock implements Clock {
  private now: number;
  private order = 0;
  private readonly pending = new Set<Pending>();

  constructor(
    startMs = 1_000,
    private readonly wallOffsetMs = 1_700_000_000_000,
  ) {
    this.now = startMs;
  }

  nowMs(): number {
    return this.now;
  }

  wallMs(): number {
    return this.wallOffsetMs + this.now;
  }

  schedule(atMs: number, callback: () => void): Timer {
    const entry: Pending = { atMs, order: this.order++, callback };
    this.pending.add(entry);
    return { cancel: () => void this.pending.delete(entry) };
  }

  /** A promise that is kept after `delayMs` of virtual time. */
  sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => this.schedule(this.now + delayMs, resolve));
  }

  /** Timers that have not fired; 0 at the end of a test shows that none leaks. */
  get pendingTimers(): number {
    return this.pending.size;
  }

  /** Moves time on, firing what falls due in order, and lets promises settle after each firing. */
  async advance(deltaMs: number): Promise<void> {
    const endMs = this.now + deltaMs;
    await this.settle();
    for (let next = this.next(endMs); next !== undefined; next = this.next(endMs)) {
      this.pending.delete(next);
      this.now = Math.max(this.now, next.atMs);
      next.callback();
      await this.settle();
    }
    this.now = endMs;
  }

  /** Lets every promise chain that needs no time run to its end. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }

  private next(endMs: number): Pending | undefined {
    let best: Pending | undefined;
    for (const entry of this.pending) {
      if (entry.atMs > endMs) continue;
      if (best === undefined || entry.atMs < best.atMs || (entry.atMs === best.atMs && entry.order < best.order)) {
        best = entry;
      }
    }
    return best;
  }
}
