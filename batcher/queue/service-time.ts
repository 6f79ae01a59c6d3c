/** Samples kept, and how long one counts. Old ones must fade, or a slow minute would refuse requests for ever. */
const MAX_SAMPLES = 64;
const MAX_AGE_MS = 10_000;

/**
 * What a batch has lately taken at the model server, from sending to the answer. A plain window over all shapes and
 * sizes; the profile per shape and batch size replaces it behind the same three questions.
 *
 * It is asked several times for every request, so the window is kept sorted while it changes, in arrays that are never made anew.
 */
export class ServiceTime {
  /** A ring in the order of arrival; `first` is the oldest. */
  private readonly atMs = new Float64Array(MAX_SAMPLES);
  private readonly durationMs = new Float64Array(MAX_SAMPLES);
  private first = 0;
  private count = 0;
  /** The same durations in ascending order, `count` of them. */
  private readonly sorted = new Float64Array(MAX_SAMPLES);

  record(durationMs: number, nowMs: number): void {
    if (this.count === MAX_SAMPLES) this.dropOldest();
    const slot = (this.first + this.count) % MAX_SAMPLES;
    this.atMs[slot] = nowMs;
    this.durationMs[slot] = durationMs;
    const place = this.placeOf(durationMs);
    this.sorted.copyWithin(place + 1, place, this.count);
    this.sorted[place] = durationMs;
    this.count += 1;
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
    while (this.count > 0 && (this.atMs[this.first] as number) < nowMs - MAX_AGE_MS) this.dropOldest();
    if (this.count === 0) return 0;
    return this.sorted[Math.min(this.count - 1, Math.floor(share * this.count))] as number;
  }

  private dropOldest(): void {
    const place = this.placeOf(this.durationMs[this.first] as number);
    this.sorted.copyWithin(place, place + 1, this.count);
    this.first = (this.first + 1) % MAX_SAMPLES;
    this.count -= 1;
  }

  /** Index of the first sorted duration that is not below this one. */
  private placeOf(durationMs: number): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.sorted[middle] as number) < durationMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
