import { status as GrpcStatus } from "@grpc/grpc-js";
import type { Clock } from "../platform/clock.js";

/** How many new streams are taken, and how fast. */
export interface AdmissionSettings {
  /** New streams per second over time; large enough means without a limit. */
  readonly ratePerS: number;
  /** New streams at once after a quiet time. */
  readonly burst: number;
  /** Streams that may wait for their turn at a time. */
  readonly lineMax: number;
  /** Longest wait of one, in ms. */
  readonly waitMaxMs: number;
  /** Open streams at a time. Without ADS an Envoy has one for each of its clusters. */
  readonly openMax: number;
}

export const ADMISSION: AdmissionSettings = {
  ratePerS: 1_000,
  burst: 1_000,
  lineMax: 2_000,
  waitMaxMs: 1_000,
  openMax: 10_000,
};

/** `full`: as many are open as may be. `storm`: too many came at once. `closing`: nobody is taken any more. */
export type RefusalReason = "full" | "storm" | "closing";

/** Why a stream is not taken, in gRPC's terms. */
export interface Refusal {
  readonly reason: RefusalReason;
  readonly code: GrpcStatus;
  readonly details: string;
}

/** A new stream. Exactly one of both is called, unless it leaves before. */
export interface Applicant {
  admit(): void;
  refuse(refusal: Refusal): void;
}

interface Waiting {
  readonly applicant: Applicant;
  readonly deadlineMs: number;
}

const NOTHING = (): void => undefined;

/**
 * The door of new streams: a token bucket, and a line in order for those who come faster. Who waits costs an entry of the
 * line, because the caller reads nothing of a stream before it is admitted. One timer, and only while somebody waits.
 */
export class StreamAdmission {
  readonly #clock: Pick<Clock, "nowMs" | "schedule">;
  readonly #settings: AdmissionSettings;
  readonly #openCount: () => number;
  readonly #line = new Set<Waiting>();
  #tokens: number;
  #filledAtMs: number;
  #cancelTimer = NOTHING;
  #isClosed = false;

  /**
   * @param openCount streams that are open now
   * @throws RangeError when the settings would never admit anybody
   */
  constructor(clock: Pick<Clock, "nowMs" | "schedule">, settings: Partial<AdmissionSettings>, openCount: () => number) {
    this.#clock = clock;
    this.#settings = { ...ADMISSION, ...settings };
    const { ratePerS, burst } = this.#settings;
    if (!(Number.isFinite(ratePerS) && ratePerS > 0 && Number.isFinite(burst) && burst >= 1)) {
      throw new RangeError("ratePerS must be a number above 0 and burst at least 1");
    }
    this.#openCount = openCount;
    this.#tokens = burst;
    this.#filledAtMs = clock.nowMs();
  }

  /** Streams in the line. */
  get waitingCount(): number {
    return this.#line.size;
  }

  /**
   * Admits or refuses within this call, or puts the stream into the line.
   * @returns takes it out of the line, because it is gone; afterwards, and when it does not wait, nothing happens
   */
  ask(applicant: Applicant): () => void {
    const refusal = this.#isClosed ? CLOSING : this.#fullRefusal();
    if (refusal !== undefined) {
      applicant.refuse(refusal);
      return NOTHING;
    }
    if (this.#line.size === 0 && this.#takeToken()) {
      applicant.admit();
      return NOTHING;
    }
    const { lineMax, waitMaxMs } = this.#settings;
    if (this.#line.size >= lineMax) {
      applicant.refuse(storm(`${lineMax} wait already`));
      return NOTHING;
    }
    const waiting = { applicant, deadlineMs: this.#clock.nowMs() + waitMaxMs };
    this.#line.add(waiting);
    if (this.#line.size === 1) this.#arm();
    return () => {
      if (this.#line.delete(waiting) && this.#line.size === 0) this.#arm();
    };
  }

  /** Refuses those who wait and all who come. */
  close(): void {
    this.#isClosed = true;
    const line = [...this.#line];
    this.#line.clear();
    this.#arm();
    for (const { applicant } of line) applicant.refuse(CLOSING);
  }

  /** In order: who has a turn now, then who has waited for too long. */
  #serve(): void {
    const nowMs = this.#clock.nowMs();
    for (const waiting of this.#line) {
      const { applicant, deadlineMs } = waiting;
      const full = this.#fullRefusal();
      const hasTurn = full === undefined && this.#takeToken();
      if (!hasTurn && full === undefined && deadlineMs > nowMs) break;
      this.#line.delete(waiting);
      if (hasTurn) applicant.admit();
      else applicant.refuse(full ?? storm(`this one has waited for ${this.#settings.waitMaxMs} ms`));
    }
    this.#arm();
  }

  /** Wakes up when the first of the line has a turn or has waited for too long. */
  #arm(): void {
    this.#cancelTimer();
    this.#cancelTimer = NOTHING;
    const [first] = this.#line;
    if (first === undefined) return;
    const toTokenMs = ((1 - this.#tokens) * 1_000) / this.#settings.ratePerS;
    const toDeadlineMs = first.deadlineMs - this.#clock.nowMs();
    const delayMs = Math.max(1, Math.ceil(Math.min(toTokenMs, toDeadlineMs)));
    this.#cancelTimer = this.#clock.schedule(delayMs, () => this.#serve());
  }

  #takeToken(): boolean {
    const nowMs = this.#clock.nowMs();
    const { ratePerS, burst } = this.#settings;
    this.#tokens = Math.min(burst, this.#tokens + ((nowMs - this.#filledAtMs) * ratePerS) / 1_000);
    this.#filledAtMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }

  #fullRefusal(): Refusal | undefined {
    const { openMax } = this.#settings;
    if (this.#openCount() < openMax) return undefined;
    const details = `this control plane serves ${openMax} streams already; try again later`;
    return { reason: "full", code: GrpcStatus.RESOURCE_EXHAUSTED, details };
  }
}

const CLOSING: Refusal = {
  reason: "closing",
  code: GrpcStatus.UNAVAILABLE,
  details: "this control plane is stopping; keep what you have and connect again",
};

function storm(what: string): Refusal {
  const details = `too many new streams at once, ${what}; try again later`;
  return { reason: "storm", code: GrpcStatus.RESOURCE_EXHAUSTED, details };
}
