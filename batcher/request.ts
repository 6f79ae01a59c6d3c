import type { Reason } from "@servemesh/proto/refusal";

/** KServe v2 datatypes. */
export type Datatype =
  | "BOOL"
  | "UINT8"
  | "UINT16"
  | "UINT32"
  | "UINT64"
  | "INT8"
  | "INT16"
  | "INT32"
  | "INT64"
  | "FP16"
  | "BF16"
  | "FP32"
  | "FP64"
  | "BYTES";

/** A tensor as it travels: raw little-endian bytes; BYTES elements each behind a 4-byte little-endian length. */
export interface Tensor {
  readonly name: string;
  readonly datatype: Datatype;
  /** Batch dimension first. */
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

/** A KServe v2 parameter value; 64-bit integers are exact. */
export type ParameterValue = boolean | bigint | string | number;

/** What the mesh says about a request, read from headers that only Envoy can set. Times are milliseconds. */
export interface RequestContext {
  /** `x-request-id`; joins both legs, the journal and the trace. */
  readonly requestId: string;
  readonly tenant: string;
  readonly priority: "interactive" | "batch";
  /** Route key, e.g. `ranker/prod`. */
  readonly route: string;
  /** What this cluster serves according to xDS, e.g. `ranker:41`. */
  readonly version: string;
  /** Versions of the route's first group. */
  readonly first: readonly string[];
  readonly leg: "primary" | "shadow";
  /** The request has a mirrored copy, so this leg goes to the journal. */
  readonly paired: boolean;
  /** Envoy's attempt count, 1 for the first. */
  readonly attempt: number;
  /** On the monotonic clock. */
  readonly arrivedAtMs: number;
  /** On the monotonic clock; Infinity without a deadline. */
  readonly deadlineAtMs: number;
}

/** A checked request: its inputs match the version's spec. */
export interface PredictRequest {
  readonly id: string;
  readonly inputs: readonly Tensor[];
  /** Empty means all outputs. */
  readonly requestedOutputs: readonly string[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly context: RequestContext;
}

/** Milliseconds per stage; a stage that did not run is absent. */
export interface StageTimings {
  features?: number;
  cache?: number;
  transform?: number;
  queue?: number;
  infer?: number;
  demux?: number;
}

/** A complete answer. `outputs` are exactly the requested ones, in the requested order. */
export interface PredictResult {
  readonly outputs: readonly Tensor[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly timings: StageTimings;
  readonly cacheHit: boolean;
  /** Rows in the batch that carried the request; 0 on a cache hit. */
  readonly batchSize: number;
}

/** A refusal with its reason; the edge turns it into a gRPC status and headers. `message` is at most 1 KiB. */
export class PredictError extends Error {
  override readonly name = "PredictError";

  constructor(
    readonly reason: Reason,
    message: string,
    /** Sent as `retry-after`, rounded up to whole seconds, where waiting helps. */
    readonly retryAfterMs?: number,
  ) {
    super(message.length > 1024 ? `${message.slice(0, 1021)}...` : message);
  }
}

/** Tells that the caller has gone or its deadline has passed, without an AbortController per request. */
export interface Cancellation {
  readonly cancelled: boolean;
  /** Called at most once, when the caller goes. */
  onCancel: (() => void) | undefined;
}

/** The pipeline behind the doors. Rejects with PredictError only. */
export interface Predictor {
  predict(request: PredictRequest, cancellation: Cancellation): Promise<PredictResult>;
}
