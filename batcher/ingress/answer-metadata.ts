import { Metadata } from "@grpc/grpc-js";
import { H_REASON, H_RETRY_AFTER, H_SERVED_BY, H_SERVER_TIMING } from "@servemesh/proto/names";
import { REFUSAL_STATUS } from "@servemesh/proto/refusal";
import type { PredictError, RequestContext, StageTimings } from "../request.js";

/** Order of the stages in `server-timing`. */
const STAGES = ["features", "cache", "transform", "queue", "infer", "demux"] as const;

/** `features;dur=6.012, queue;dur=1.500`: milliseconds of the stages that ran (W3C Server Timing). */
export function formatServerTiming(timings: StageTimings): string {
  const entries: string[] = [];
  for (const stage of STAGES) {
    const durationMs = timings[stage];
    if (durationMs !== undefined) entries.push(`${stage};dur=${durationMs.toFixed(3)}`);
  }
  return entries.join(", ");
}

/**
 * `ranker:41`, with the reason when this version is not among the route's first choices: a second attempt means that
 * the first one refused as overloaded, a first attempt that the first choice had no endpoint.
 */
export function formatServedBy(own: string, context: RequestContext): string {
  if (context.first.length === 0 || context.first.includes(own)) return own;
  return `${own}; fallback=${context.attempt >= 2 ? "saturated" : "unavailable"}`;
}

/** Response metadata of a complete answer. */
export function successMetadata(own: string, context: RequestContext, timings: StageTimings): Metadata {
  const metadata = new Metadata();
  metadata.set(H_SERVED_BY, formatServedBy(own, context));
  const timing = formatServerTiming(timings);
  if (timing !== "") metadata.set(H_SERVER_TIMING, timing);
  return metadata;
}

/** What grpc-js sends as a trailers-only answer. */
export interface Refusal {
  readonly code: number;
  readonly details: string;
  readonly metadata: Metadata;
}

/** The status, text and headers of a refusal (DESIGN §3). */
export function refusalOf(error: PredictError, code: number = REFUSAL_STATUS[error.reason].grpc): Refusal {
  const metadata = new Metadata();
  metadata.set(H_REASON, error.reason);
  if (error.retryAfterMs !== undefined) {
    metadata.set(H_RETRY_AFTER, `${Math.max(1, Math.ceil(error.retryAfterMs / 1000))}`);
  }
  // grpc-js encodes the text as a URI component, which throws on half a surrogate pair.
  return { code, details: error.message.replace(/\p{Surrogate}/gu, "?"), metadata };
}
