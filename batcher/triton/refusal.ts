import { PredictError } from "../request.js";
import type { UpstreamError } from "./upstream-error.js";

/** How long a caller should wait when the model server itself is busy, in ms. */
const BUSY_RETRY_MS = 1_000;

/** What a caller is told when the call to the model server failed. */
export function refusalOf(error: UpstreamError): PredictError {
  switch (error.kind) {
    case "unreachable":
    case "stub_dead":
      return new PredictError("unavailable", `the model server is not available: ${error.message}`);
    case "rejected":
      return new PredictError("bad_input", `the model server refuses the input: ${error.message}`);
    case "deadline":
      return new PredictError("deadline", "the model server did not answer within the deadline");
    case "busy":
      return new PredictError("overloaded", `the model server is busy: ${error.message}`, BUSY_RETRY_MS);
    case "failed":
      return new PredictError("internal", `the model server failed: ${error.message}`);
  }
}
