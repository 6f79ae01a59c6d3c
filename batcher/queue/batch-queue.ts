import type { Clock, Timer } from "../platform/clock.js";
import { PredictError } from "../request.js";
import {
  formBatch,
  type LaneState,
  pickDueLane,
  releaseDueMs,
  retryAfterMs,
  windowToleranceMs,
} from "./release-policy.js";
import { ServiceTime } from "./service-time.js";

/** All limits of one version's queue. */
export interface QueueLimits {
  /** Rows of one batch, at least 1. */
  readonly maxBatchRows: number;
  /** Longest wait of a lane's oldest member for company; 0 means none. Fractions count. */
  readonly maxDelayMs: number;
  /** Requests of one leg that may wait. */
  readonly maxWaiting: number;
  /** Bytes of tensors of one leg that may wait. */
  readonly maxWaitingBytes: number;
  /** Batches at the model server at the same time. */
  readonly maxInFlight: number;
}

/** What the queue knows of a request. */
export interface QueueItem {
  readonly laneKey: string;
  readonly leg: "primary" | "shadow";
  readonly rows: number;
  readonly bytes: number;
  readonly deadlineAtMs: number;
}

/** A request that waits. */
export interface Waiting<T extends QueueItem> {
  readonly item: T;
  readonly rows: number;
  readonly enqueuedAtMs: number;
  /** Undefined once it has left, by whatever way. */
  lane: Lane<T> | undefined;
}

/** Requests that may share a batch. A Set keeps arrival order and forgets a member at once, wherever it stands. */
class Lane<T extends QueueItem> implements LaneState {
  readonly members = new Set<Waiting<T>>();
  rows = 0;
  private earliest: number | undefined = Number.POSITIVE_INFINITY;

  constructor(
    readonly key: string,
    readonly leg: "primary" | "shadow",
  ) {}

  get oldestAtMs(): number {
    for (const member of this.members) return member.enqueuedAtMs;
    return Number.POSITIVE_INFINITY;
  }

  /** Measured again only after the tightest member has left. */
  get earliestDeadlineAtMs(): number {
    if (this.earliest === undefined) {
      let earliest = Number.POSITIVE_INFINITY;
      for (const member of this.members) earliest = Math.min(earliest, member.item.deadlineAtMs);
      this.earliest = earliest;
    }
    return this.earliest;
  }

  add(member: Waiting<T>): void {
    this.members.add(member);
    this.rows += member.rows;
    if (this.earliest !== undefined) this.earliest = Math.min(this.earliest, member.item.deadlineAtMs);
  }

  remove(member: Waiting<T>): void {
    this.members.delete(member);
    this.rows -= member.rows;
    if (this.earliest !== undefined && member.item.deadlineAtMs <= this.earliest) this.earliest = undefined;
  }
}

export interface BatchQueueDeps<T extends QueueItem> {
  readonly clock: Clock;
  /** Runs one batch. The slot is free again when the promise settles; a rejection is a bug and is reported as one. */
  readonly dispatch: (batch: readonly Waiting<T>[]) => Promise<void>;
  /** A member whose remaining time is below the fastest recent batch; it has left the queue. */
  readonly hopeless: (item: T, remainingMs: number, floorMs: number) => void;
  readonly bug: (error: unknown) => void;
}

/** A look at the queue, for metrics and the load report. */
export interface QueueLoad {
  readonly waiting: number;
  readonly waitingRows: number;
  readonly waitingBytes: number;
  readonly inFlight: number;
  /** Expected wait of a request that comes now. */
  readonly waitMs: number;
  readonly serviceMs: number;
}

interface LegTotals {
  requests: number;
  rows: number;
  bytes: number;
}

/**
 * Waiting requests of one version, in lanes of one shape. What can happen: a request arrives, one leaves early, a window
 * ends (timer), a batch returns. Each re-evaluates all lanes synchronously, so one thing happens at a time.
 */
export class BatchQueue<T extends QueueItem> {
  private readonly lanes = new Map<string, Lane<T>>();
  private readonly totals: Record<"primary" | "shadow", LegTotals> = {
    primary: { requests: 0, rows: 0, bytes: 0 },
    shadow: { requests: 0, rows: 0, bytes: 0 },
  };
  private readonly serviceTime = new ServiceTime();
  private inFlight = 0;
  private timer: Timer | undefined;
  private idle: (() => void)[] = [];

  constructor(
    private readonly limits: QueueLimits,
    private readonly deps: BatchQueueDeps<T>,
  ) {}

  /**
   * Takes a request, and may dispatch it before returning.
   * @throws PredictError `bad_input` above the batch size, `deadline` when it cannot be met, `overloaded` at a limit
   */
  enqueue(item: T): Waiting<T> {
    const nowMs = this.deps.clock.nowMs();
    this.admit(item, nowMs);
    let lane = this.lanes.get(item.laneKey);
    if (lane === undefined) {
      lane = new Lane(item.laneKey, item.leg);
      this.lanes.set(item.laneKey, lane);
    }
    const member: Waiting<T> = { item, rows: item.rows, enqueuedAtMs: nowMs, lane };
    lane.add(member);
    this.count(item, 1);
    this.evaluate();
    return member;
  }

  /** Takes a member out, at once. False when it had left already. */
  remove(member: Waiting<T>): boolean {
    if (!this.takeOut(member)) return false;
    this.evaluate();
    return true;
  }

  load(): QueueLoad {
    const nowMs = this.deps.clock.nowMs();
    const { primary, shadow } = this.totals;
    const serviceMs = this.serviceTime.medianMs(nowMs);
    const waitingRows = primary.rows + shadow.rows;
    const ahead =
      Math.floor(waitingRows / this.limits.maxBatchRows) + (this.inFlight >= this.limits.maxInFlight ? 1 : 0);
    return {
      waiting: primary.requests + shadow.requests,
      waitingRows,
      waitingBytes: primary.bytes + shadow.bytes,
      inFlight: this.inFlight,
      waitMs: (ahead * serviceMs) / this.limits.maxInFlight,
      serviceMs,
    };
  }

  /** Kept when nothing waits and nothing is in flight. */
  whenIdle(): Promise<void> {
    if (this.isIdle()) return Promise.resolve();
    return new Promise((resolve) => this.idle.push(resolve));
  }

  private admit(item: T, nowMs: number): void {
    const { maxBatchRows, maxWaiting, maxWaitingBytes, maxInFlight } = this.limits;
    if (item.rows > maxBatchRows) {
      throw new PredictError(
        "bad_input",
        `the request has ${item.rows} rows, more than this version's batch limit of ${maxBatchRows}; split it`,
      );
    }
    const remainingMs = item.deadlineAtMs - nowMs;
    const floorMs = this.serviceTime.floorMs(nowMs);
    if (remainingMs <= 0) throw new PredictError("deadline", "the deadline passed before the request was queued");
    if (remainingMs < floorMs) {
      throw new PredictError(
        "deadline",
        `${remainingMs.toFixed(1)} ms are left, but the fastest recent batch took ${floorMs.toFixed(1)} ms; allow more time`,
      );
    }
    const total = this.totals[item.leg];
    const full =
      total.requests >= maxWaiting
        ? `${maxWaiting} requests wait already (max_queue_size)`
        : total.bytes + item.bytes > maxWaitingBytes
          ? `waiting requests hold ${total.bytes} of ${maxWaitingBytes} bytes`
          : undefined;
    if (full === undefined) return;
    const waitMs = retryAfterMs(total.rows, maxBatchRows, maxInFlight, this.serviceTime.medianMs(nowMs));
    throw new PredictError("overloaded", `the queue is full: ${full}; try again later`, waitMs);
  }

  /** @param earlyMs how much too early the timer may have called */
  private evaluate(earlyMs = 0): void {
    this.timer?.cancel();
    this.timer = undefined;
    while (this.inFlight < this.limits.maxInFlight) {
      const nowMs = this.deps.clock.nowMs();
      const lane = pickDueLane(this.lanes.values(), this.limits, this.serviceTime.slowMs(nowMs), nowMs + earlyMs);
      if (lane === undefined) {
        this.arm(nowMs);
        break;
      }
      this.release(lane, nowMs);
    }
    if (this.idle.length > 0 && this.isIdle()) {
      const waiters = this.idle;
      this.idle = [];
      for (const resolve of waiters) resolve();
    }
  }

  /** Nothing is armed while all slots are taken: the returning batch evaluates. */
  private arm(nowMs: number): void {
    const serviceMs = this.serviceTime.slowMs(nowMs);
    let dueMs = Number.POSITIVE_INFINITY;
    for (const lane of this.lanes.values()) dueMs = Math.min(dueMs, releaseDueMs(lane, this.limits, serviceMs));
    if (dueMs === Number.POSITIVE_INFINITY) return;
    const earlyMs = windowToleranceMs(this.limits.maxDelayMs);
    this.timer = this.deps.clock.schedule(dueMs, () => this.evaluate(earlyMs), earlyMs);
  }

  private release(lane: Lane<T>, nowMs: number): void {
    const floorMs = this.serviceTime.floorMs(nowMs);
    const batch: Waiting<T>[] = [];
    for (const member of formBatch(lane.members, this.limits.maxBatchRows)) {
      this.takeOut(member);
      const remainingMs = member.item.deadlineAtMs - nowMs;
      if (remainingMs <= 0 || remainingMs < floorMs) this.deps.hopeless(member.item, remainingMs, floorMs);
      else batch.push(member);
    }
    if (batch.length === 0) return;
    this.inFlight += 1;
    void this.run(batch);
  }

  private async run(batch: readonly Waiting<T>[]): Promise<void> {
    try {
      await this.deps.dispatch(batch);
    } catch (error) {
      this.deps.bug(error);
    } finally {
      this.inFlight -= 1;
      this.evaluate();
    }
  }

  /** Tells what one successful batch took at the model server. */
  recordService(durationMs: number): void {
    this.serviceTime.record(durationMs, this.deps.clock.nowMs());
  }

  private takeOut(member: Waiting<T>): boolean {
    const lane = member.lane;
    if (lane === undefined) return false;
    member.lane = undefined;
    lane.remove(member);
    if (lane.members.size === 0) this.lanes.delete(lane.key);
    this.count(member.item, -1);
    return true;
  }

  private count(item: T, sign: 1 | -1): void {
    const total = this.totals[item.leg];
    total.requests += sign;
    total.rows += sign * item.rows;
    total.bytes += sign * item.bytes;
  }

  private isIdle(): boolean {
    return this.inFlight === 0 && this.lanes.size === 0;
  }
}
