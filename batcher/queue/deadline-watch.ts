import type { Clock, Timer } from "../platform/clock.js";

/** One watched deadline; pass it back to `remove`. */
export interface DeadlineEntry {
  readonly deadlineAtMs: number;
  readonly expire: () => void;
  /** Place in the heap, -1 when it has left. */
  index: number;
}

/**
 * Calls back as soon as a deadline has passed, for any number of requests on one timer: a binary heap, in which an entry
 * knows its place, so that removal costs O(log n) and leaves nothing behind.
 */
export class DeadlineWatch {
  private readonly heap: DeadlineEntry[] = [];
  private timer: Timer | undefined;
  private armedAtMs = Number.POSITIVE_INFINITY;

  constructor(private readonly clock: Clock) {}

  /** Number of watched deadlines. */
  get size(): number {
    return this.heap.length;
  }

  /** Watches until the deadline or `remove`. Infinity is accepted and never expires. */
  add(deadlineAtMs: number, expire: () => void): DeadlineEntry {
    const entry: DeadlineEntry = { deadlineAtMs, expire, index: -1 };
    if (deadlineAtMs === Number.POSITIVE_INFINITY) return entry;
    entry.index = this.heap.length;
    this.heap.push(entry);
    this.up(entry.index);
    this.arm();
    return entry;
  }

  /** Stops watching; does nothing for an entry that has expired or was removed. */
  remove(entry: DeadlineEntry): void {
    const at = entry.index;
    if (at < 0) return;
    entry.index = -1;
    const last = this.heap.pop();
    if (last === undefined || last === entry) {
      if (this.heap.length === 0) this.disarm();
      return;
    }
    this.place(last, at);
    this.up(at);
    this.down(last.index);
    // The timer stays: waking once too early is cheaper than re-arming at every removal.
  }

  private readonly fire = (): void => {
    this.timer = undefined;
    this.armedAtMs = Number.POSITIVE_INFINITY;
    const nowMs = this.clock.nowMs();
    for (let head = this.heap[0]; head !== undefined && head.deadlineAtMs <= nowMs; head = this.heap[0]) {
      this.remove(head);
      head.expire();
    }
    this.arm();
  };

  private arm(): void {
    const head = this.heap[0];
    if (head === undefined || head.deadlineAtMs >= this.armedAtMs) return;
    this.timer?.cancel();
    this.armedAtMs = head.deadlineAtMs;
    this.timer = this.clock.schedule(head.deadlineAtMs, this.fire);
  }

  private disarm(): void {
    this.timer?.cancel();
    this.timer = undefined;
    this.armedAtMs = Number.POSITIVE_INFINITY;
  }

  private place(entry: DeadlineEntry, index: number): void {
    this.heap[index] = entry;
    entry.index = index;
  }

  private up(start: number): void {
    const entry = this.heap[start];
    if (entry === undefined) return;
    let at = start;
    while (at > 0) {
      const parentAt = (at - 1) >> 1;
      const parent = this.heap[parentAt];
      if (parent === undefined || parent.deadlineAtMs <= entry.deadlineAtMs) break;
      this.place(parent, at);
      at = parentAt;
    }
    this.place(entry, at);
  }

  private down(start: number): void {
    const entry = this.heap[start];
    if (entry === undefined) return;
    let at = start;
    for (;;) {
      let childAt = 2 * at + 1;
      let child = this.heap[childAt];
      const right = this.heap[childAt + 1];
      if (child === undefined) break;
      if (right !== undefined && right.deadlineAtMs < child.deadlineAtMs) {
        childAt += 1;
        child = right;
      }
      if (child.deadlineAtMs >= entry.deadlineAtMs) break;
      this.place(child, at);
      at = childAt;
    }
    this.place(entry, at);
  }
}
