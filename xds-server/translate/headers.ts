import { HeaderMutation } from "@servemesh/proto/gen/envoy/envoy/config/common/mutation_rules/v3/mutation_rules.js";
import {
  HeaderValueOption,
  HeaderValueOption_HeaderAppendAction,
} from "@servemesh/proto/gen/envoy/envoy/config/core/v3/base.js";

/** Sets a header, replacing whatever was there. */
export function setHeader(key: string, value: string): HeaderValueOption {
  return HeaderValueOption.fromPartial({
    header: { key, value },
    appendAction: HeaderValueOption_HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD,
  });
}

export function setMutation(key: string, value: string): HeaderMutation {
  return HeaderMutation.fromPartial({ action: { $case: "append", value: setHeader(key, value) } });
}

export function removeMutation(key: string): HeaderMutation {
  return HeaderMutation.fromPartial({ action: { $case: "remove", value: key } });
}

/** Removes every header with a prefix. */
export function removePrefixMutation(prefix: string): HeaderMutation {
  return HeaderMutation.fromPartial({
    action: { $case: "removeOnMatch", value: { keyMatcher: { matchPattern: { $case: "prefix", value: prefix } } } },
  });
}
