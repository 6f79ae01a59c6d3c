import { PRIORITY_BATCH, PRIORITY_INTERACTIVE } from "../../../../proto/src/names";
import { literal } from "../../proxy-wasm/index";
import { Call, Flag } from "../call";
import { Config, NONE } from "../config";
import { BAD_PRIORITY, Refusal } from "../refusals";
import { RequestHeaders } from "../request-headers";

export const INTERACTIVE = literal(PRIORITY_INTERACTIVE);
export const BATCH = literal(PRIORITY_BATCH);

/** How urgent the call is: sets Flag.Batch by the tenant's plan. `x-predict-priority` may lower it but never raise it. */
export function decidePriority(call: Call, headers: RequestHeaders, config: Config): Refusal | null {
  if (call.tenant !== NONE && config.tenantIsBatch(call.tenant)) call.flags |= Flag.Batch;
  const wish = headers.predictPriority;
  if (wish.count === 0) return null;
  if (wish.count > 1) return BAD_PRIORITY;
  if (wish.value.equals(BATCH)) call.flags |= Flag.Batch;
  else if (!wish.value.equals(INTERACTIVE)) return BAD_PRIORITY;
  return null;
}
