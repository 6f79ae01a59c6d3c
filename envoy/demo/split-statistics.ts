import type { PredictAnswer } from "./predict-client.js";

/** How many answers came from where. */
export interface SplitStatistics {
  readonly total: number;
  /** By what `x-servemesh-served-by` said. */
  readonly byVersion: ReadonlyMap<string, number>;
  /** Everything but 200. */
  readonly failed: number;
  /** First failure in words. */
  readonly firstFailure: string | undefined;
}

export function countSplit(answers: readonly PredictAnswer[]): SplitStatistics {
  const byVersion = new Map<string, number>();
  const failures = answers.filter(({ status }) => status !== 200);
  for (const { status, servedBy } of answers) {
    if (status === 200) byVersion.set(servedBy ?? "unknown", (byVersion.get(servedBy ?? "unknown") ?? 0) + 1);
  }
  const [first] = failures;
  return {
    total: answers.length,
    byVersion,
    failed: failures.length,
    firstFailure: first === undefined ? undefined : `${first.status} ${first.reason ?? ""} ${first.text}`.slice(0, 300),
  };
}

/** Share in percent of the good answers that this version gave, 0 when there are none. */
export function sharePercent(statistics: SplitStatistics, version: string): number {
  const good = statistics.total - statistics.failed;
  return good === 0 ? 0 : round(((statistics.byVersion.get(version) ?? 0) / good) * 100);
}

/** `p` from 0 to 1 by the nearest-rank method; NaN without values. */
export function percentile(values: readonly number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)] ?? Number.NaN;
}

/** Two digits are enough for people and for comparisons with bars. */
export function round(value: number): number {
  return Math.round(value * 100) / 100;
}
