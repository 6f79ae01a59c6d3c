import { Span } from "../../proxy-wasm/index";
import { Call } from "../call";
import { Config } from "../config";
import { BAD_STICKY, Refusal } from "../refusals";
import { RequestHeaders } from "../request-headers";

/** Longer keys are no better for a hash, and the copy travels upstream. */
const STICKY_BYTES_MAX: u32 = 1024;
const name = new Span();

/**
 * The key of sticky splits: takes the header that the model configures into `headers.sticky`. Two keys are refused, because
 * a hash over one of them would depend on which one a proxy looks at.
 */
export function decideSticky(call: Call, headers: RequestHeaders, config: Config): Refusal | null {
  if (!call.namesModel) return null;
  config.stickyHeader(call.model, name);
  if (name.length === 0) return null;
  headers.find(name, headers.sticky);
  return headers.sticky.count > 1 || headers.sticky.value.length > STICKY_BYTES_MAX ? BAD_STICKY : null;
}
