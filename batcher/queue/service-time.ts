interface Sample {
  readonly atMs: number;
  readonly durationMs: number;
}

/** Samples kept, and how long one counts. Old ones must fade, or a slow minute would refuse requests for ever. */
const MAX_SAMPLES = 64;
const MAX_AGE_MS = 10_000;

/**
 * What a batch has lately taken at the model server, from sending to the answer. A plain window over all shapes and
 * sizes; the profile per shape and batch size replaces it behind the same three questions.
 */
export class ServiceTime {
  private readonly samples: Sample[] = [];
  private sorted: number[] | undefined;

  record(durationMs: number, nowMs: number): void {
    this.samples.push({ atMs: nowMs, durationMs });
    if (this.samples.length > MAX_SAMPLES) this.samples.shift();
    this.sorted = undefined;
  }

  /** The fastest recent batch: with less time than this left, a request cannot be answered. 0 without fresh samples. */
  floorMs(nowMs: number): number {
    return this.quantile(0, nowMs);
  }

  /** The usual time. 0 without fresh samples. */
  medianMs(nowMs: number): number {
    return this.quantile(0.5, nowMs);
  }

  /** A slow batch: time to plan with, so that a deadline still holds. 0 without fresh samples. */
  slowMs(nowMs: number): number {
    return this.quantile(0.95, nowMs);
  }

  private quantile(share: number, nowMs: number): number {
    this.expire(nowMs);
    if (this.samples.length === 0) return 0;
    this.sorted ??= this.samples.map((sample) => sample.durationMs).sort((a, b) => a - b);
    return this.sorted[Math.min(this.sorted.length - 1, Math.floor(share * this.sorted.length))] ?? 0;
  }

  private expire(nowMs: number): void {
    while (this.samples[0] !== undefined && this.samples[0].atMs < nowMs - MAX_AGE_MS) {
      this.samples.shift();
      this.sorted = undefined;
    }
  }
}
