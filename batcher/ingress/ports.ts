import type { Reason } from "@servemesh/proto/refusal";

/** Form in which a call came in; all doors end at the same gRPC server. */
export type Door = "grpc" | "rest_v1" | "rest_v2";

/** How a call ended: an answer, a refusal, or the caller went away. */
export type CallOutcome = "ok" | "cancelled" | Reason;

export interface CallDone {
  readonly door: Door;
  /** RPC name, e.g. `ModelInfer`. */
  readonly method: string;
  readonly outcome: CallOutcome;
  readonly durationMs: number;
  readonly requestBytes: number;
  readonly responseBytes: number;
}

/** Told about every call exactly once, when it ends. Must not throw. */
export interface IngressMetrics {
  callDone(done: CallDone): void;
}

/** The part of pino's logger that the ingress uses. */
export interface IngressLogger {
  error(fields: object, message: string): void;
}
