import { Asked } from "../asked";
import { Call } from "../call";
import { Config, NONE } from "../config";
import { isAlias, ModelReference, Pin, parseVersion } from "../model-reference";
import {
  BAD_ALIAS,
  BAD_VERSION,
  CONFLICTING_PINS,
  NO_DEFAULT_ALIAS,
  NO_SUCH_ALIAS,
  NO_SUCH_MODEL,
  NO_SUCH_VERSION,
  Refusal,
} from "../refusals";

const reference = new ModelReference();

/** Which model and which alias or version: sets the call's model, alias and version. */
export function decideResolve(call: Call, asked: Asked, config: Config): Refusal | null {
  if (!call.namesModel) return null;
  let refusal = reference.parse(asked.model);
  if (refusal !== null) return refusal;
  refusal = applyDoorPins(asked);
  if (refusal !== null) return refusal;
  call.model = config.findModel(reference.model);
  if (call.model === NONE) return NO_SUCH_MODEL;
  return resolvePin(call, config);
}

/** A version or label beside the reference pins a bare one and must say the same as a pinned one. */
function applyDoorPins(asked: Asked): Refusal | null {
  if (asked.version.present) {
    const version = parseVersion(asked.version);
    if (version === 0) return BAD_VERSION;
    if (reference.pin === Pin.Alias || (reference.pin === Pin.Version && reference.version !== version)) {
      return CONFLICTING_PINS;
    }
    reference.pin = Pin.Version;
    reference.version = version;
  }
  if (asked.label.present) {
    if (!isAlias(asked.label)) return BAD_ALIAS;
    if (reference.pin === Pin.Version || (reference.pin === Pin.Alias && !reference.alias.equals(asked.label))) {
      return CONFLICTING_PINS;
    }
    reference.pin = Pin.Alias;
    reference.alias.copyFrom(asked.label);
  }
  return null;
}

function resolvePin(call: Call, config: Config): Refusal | null {
  if (reference.pin === Pin.Version) {
    call.version = reference.version;
    return config.hasVersion(call.model, reference.version) ? null : NO_SUCH_VERSION;
  }
  if (reference.pin === Pin.Alias) {
    call.alias = config.findAlias(call.model, reference.alias);
    return call.alias === NONE ? NO_SUCH_ALIAS : null;
  }
  call.alias = config.defaultAlias(call.model);
  return call.alias === NONE ? NO_DEFAULT_ALIAS : null;
}
