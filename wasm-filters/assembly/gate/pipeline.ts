import { Asked } from "./asked";
import { Call, Flag } from "./call";
import { Config } from "./config";
import { NO_BODY, NO_CONFIGURATION, Refusal } from "./refusals";
import { RequestHeaders } from "./request-headers";
import { decideAccess } from "./stages/access";
import { decideAuth } from "./stages/auth";
import { decideDeadline, readWish } from "./stages/deadline";
import { decideDoor } from "./stages/door";
import { decidePriority } from "./stages/priority";
import { decideResolve } from "./stages/resolve";
import { decideSticky } from "./stages/sticky";

/*
 * The stages in their order. Each is a function of what is known that adds to the call or refuses; none touches the host.
 * First cheap facts of the request itself, then who asks, then what is asked for: so nobody without a key learns which
 * models exist, and a tenant learns of an unknown model before a forbidden one.
 */

/** What the headers alone decide, at every door. */
export function decideByHeaders(
  call: Call,
  headers: RequestHeaders,
  asked: Asked,
  config: Config | null,
  endOfStream: bool,
): Refusal | null {
  // The door comes first even without a configuration, because it says in which form to answer.
  let refusal = decideDoor(call, headers, asked);
  if (config === null) return NO_CONFIGURATION;
  if (refusal === null) refusal = decideAuth(call, headers, config);
  if (refusal === null && endOfStream && call.has(Flag.Grpc)) refusal = NO_BODY;
  if (refusal === null) call.wishMs = readWish(headers);
  return refusal;
}

/** What is decided once it is known which model is asked for: at REST doors at once, at gRPC doors with the body. */
export function decideByReference(call: Call, headers: RequestHeaders, asked: Asked, config: Config): Refusal | null {
  let refusal = decideResolve(call, asked, config);
  if (refusal === null) refusal = decideAccess(call, config);
  if (refusal === null) refusal = decideDeadline(call, config);
  if (refusal === null) refusal = decidePriority(call, headers, config);
  if (refusal === null) refusal = decideSticky(call, headers, config);
  return refusal;
}
