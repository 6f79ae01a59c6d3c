/** What a lane (requests that may share a batch) looks like to the policy. Times are on the monotonic clock. */
export interface LaneState {
  readonly leg: "primary" | "shadow";
  /** Rows waiting. */
  readonly rows: number;
  /** When the oldest member came. */
  readonly oldestAtMs: number;
  /** Infinity without deadlines. */
  readonly earliestDeadlineAtMs: number;
}

export interface ReleaseLimits {
  readonly maxBatchRows: number;
  readonly maxDelayMs: number;
}

/**
 * When a lane's next batch must leave: at once when it is full, else when its oldest member has waited long enough, or
 * when its tightest deadline leaves just the time that a batch takes.
 * @param serviceMs expected time of one batch at the model server, 0 when unknown
 * @returns a monotonic time; -Infinity means now
 */
export function releaseDueMs(lane: LaneState, limits: ReleaseLimits, serviceMs: number): number {
  if (lane.rows >= limits.maxBatchRows) return Number.NEGATIVE_INFINITY;
  return Math.min(lane.oldestAtMs + limits.maxDelayMs, lane.earliestDeadlineAtMs - serviceMs);
}

/**
 * Which lane leaves now: among those that are due, primary before shadow, then the one with the oldest member, so that a
 * busy shape never starves a rare one.
 * @returns undefined when none is due
 */
export function pickDueLane<L extends LaneState>(
  lanes: Iterable<L>,
  limits: ReleaseLimits,
  serviceMs: number,
  nowMs: number,
): L | undefined {
  let best: L | undefined;
  for (const lane of lanes) {
    if (releaseDueMs(lane, limits, serviceMs) > nowMs) continue;
    if (best === undefined || precedes(lane, best)) best = lane;
  }
  return best;
}

function precedes(a: LaneState, b: LaneState): boolean {
  if (a.leg !== b.leg) return a.leg === "primary";
  return a.oldestAtMs < b.oldestAtMs;
}

/**
 * The members of the next batch, in the given order (arrival for now), as many as fit. Stops at the first that does not
 * fit instead of looking for smaller ones behind it, which could pass a large request for ever.
 */
export function formBatch<M extends { readonly rows: number }>(members: Iterable<M>, maxBatchRows: number): M[] {
  const batch: M[] = [];
  let rows = 0;
  for (const member of members) {
    if (rows + member.rows > maxBatchRows && batch.length > 0) break;
    batch.push(member);
    rows += member.rows;
    if (rows >= maxBatchRows) break;
  }
  return batch;
}

/**
 * How much earlier than planned a window may close. setTimeout is early by up to 0.9 ms, and waiting out the rest burns
 * CPU, so windows of 4 ms and more give 1 ms away; shorter ones a quarter of themselves.
 */
export function windowToleranceMs(maxDelayMs: number): number {
  return Math.min(1, maxDelayMs / 4);
}

/**
 * Time until a refused caller may try again: until the queue in front of it has been served, at least 1 ms.
 * @param serviceMs expected time of one batch
 */
export function retryAfterMs(
  waitingRows: number,
  maxBatchRows: number,
  maxInFlight: number,
  serviceMs: number,
): number {
  const rounds = Math.ceil(waitingRows / (maxBatchRows * maxInFlight)) + 1;
  return Math.max(1, rounds * serviceMs);
}
