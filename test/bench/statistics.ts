/** Value below which a share `quantile` (0..1) of the samples lies, by the nearest rank. NaN of no samples. */
export function quantileOf(samples: readonly number[], quantile: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const rank = Math.max(0, Math.ceil(quantile * sorted.length) - 1);
  return sorted[rank] ?? Number.NaN;
}

/** The middle sample, or the mean of the two middle ones. NaN of no samples. */
export function medianOf(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const upper = sorted.length >> 1;
  const high = sorted[upper] ?? Number.NaN;
  return sorted.length % 2 === 1 ? high : ((sorted[upper - 1] ?? Number.NaN) + high) / 2;
}
