import { Call } from "../call";
import { Config } from "../config";
import { Refusal, TENANT_NOT_ALLOWED } from "../refusals";

/** Whether the tenant may call the model: both sides must allow it. Calls of the server need no more than a key. */
export function decideAccess(call: Call, config: Config): Refusal | null {
  if (!call.namesModel) return null;
  return config.allows(call.model, call.tenant) ? null : TENANT_NOT_ALLOWED;
}
