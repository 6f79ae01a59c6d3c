import type { MergedTensor } from "../batch/merge.js";
import type { ParameterValue, Tensor } from "../request.js";

/** One batch for the model server. */
export interface UpstreamRequest {
  readonly inputs: readonly MergedTensor[];
  /** Never empty: the server returns exactly these. */
  readonly outputs: readonly string[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
}

export interface UpstreamAnswer {
  /** Slices of the received message. */
  readonly outputs: readonly Tensor[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
}

/**
 * The model server of one version. Every call has a deadline on the monotonic clock, and every call that fails rejects
 * with UpstreamError.
 */
export interface ModelServer {
  infer(request: UpstreamRequest, deadlineAtMs: number): Promise<UpstreamAnswer>;
  /** Whether the server and the model say that they are ready, which does not prove that they are. */
  ready(deadlineAtMs: number): Promise<boolean>;
  /** Loads the model (again); repairs a dead python process. */
  load(deadlineAtMs: number): Promise<void>;
  close(): void;
}
