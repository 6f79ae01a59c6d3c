import { status } from "@grpc/grpc-js";

/**
 * Why a call to the model server failed, as far as it matters here:
 * `unreachable` no connection, or the server is going; `stub_dead` the python process behind the model has died and every
 * call fails until the model is loaded again; `rejected` the server refuses this input; `deadline` no answer in time;
 * `busy` the server's own limits; `failed` anything else.
 */
export type UpstreamErrorKind = "unreachable" | "stub_dead" | "rejected" | "deadline" | "busy" | "failed";

/** A failed call to the model server. */
export class UpstreamError extends Error {
  override readonly name = "UpstreamError";

  constructor(
    readonly kind: UpstreamErrorKind,
    message: string,
  ) {
    super(message);
  }
}

/** Triton's words for a dead python process; its readiness calls stay positive, so these words are all there is to see. */
const STUB_DEAD = /stub process.*(not healthy|unhealthy)/i;

/** Sorts a gRPC status of the model server. */
export function classifyStatus(code: status, details: string): UpstreamError {
  const text = details === "" ? (status[code] ?? String(code)) : details;
  switch (code) {
    case status.INVALID_ARGUMENT:
    case status.OUT_OF_RANGE:
      return new UpstreamError("rejected", text);
    case status.DEADLINE_EXCEEDED:
      // grpc-js puts measured times into its text, which would make every report of an outage a new one.
      return new UpstreamError("deadline", "the model server did not answer in time");
    case status.RESOURCE_EXHAUSTED:
      return new UpstreamError("busy", text);
    case status.UNAVAILABLE:
    case status.CANCELLED:
    // Unknown model or version: what this server holds is not what is to be served here.
    case status.NOT_FOUND:
      return new UpstreamError("unreachable", text);
    default:
      return new UpstreamError(STUB_DEAD.test(text) ? "stub_dead" : "failed", text);
  }
}
