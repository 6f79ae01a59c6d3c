import { TypedExtensionConfig } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/extension.js";
import { RBAC_Action } from "@servemesh/proto/gen/envoy/envoy/config/rbac/v3/rbac.js";
import { RBAC } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/http/rbac/v3/rbac.js";
import { Wasm } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/http/wasm/v3/wasm.js";
import { HttpFilter } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.js";
import { FailurePolicy } from "@servemesh/proto/gen/envoy/envoy/extensions/wasm/v3/wasm.js";
import type { Any } from "@servemesh/proto/gen/envoy/google/protobuf/any.js";
import { BytesValue } from "@servemesh/proto/gen/envoy/google/protobuf/wrappers.js";
import { packAny, typeUrlOf } from "./any.js";
import { GATE } from "./names.js";
import { adsSource, duration } from "./sources.js";

const FIRST_CONFIG_PATIENCE_MS = 15_000;
/** Envoy's default of one second would refuse every call of a worker that long after a trap. */
const RELOAD_BACK_OFF_MS = 100;

/** The place of the gate in the filter chain. Until its configuration arrives, nobody passes. */
export function gateFilter(): HttpFilter {
  return HttpFilter.fromPartial({
    name: GATE,
    configType: {
      $case: "configDiscovery",
      value: {
        configSource: adsSource(FIRST_CONFIG_PATIENCE_MS),
        typeUrls: [typeUrlOf(Wasm), typeUrlOf(RBAC)],
        defaultConfig: denyAll(),
        // The port waits for the first configuration instead of opening with the default.
        applyDefaultConfigWithoutWarming: false,
      },
    },
  });
}

/**
 * Stands in for the gate while there is none that works, so that the port opens and tells callers "unavailable"; without
 * any answer Envoy would wait for its time-out with the port closed.
 */
export function closedGateExtension(): TypedExtensionConfig {
  return TypedExtensionConfig.fromPartial({ name: GATE, typedConfig: denyAll() });
}

/** Allows what matches one of no policies. */
function denyAll(): Any {
  return packAny(RBAC, RBAC.fromPartial({ rules: { action: RBAC_Action.ALLOW, policies: {} } }));
}

/**
 * The gate itself, for ECDS: a change reaches streams on existing connections at once, which a listener change would not.
 * @param module Wasm code, sent inline
 * @param config the gate's compiled configuration blob
 */
export function gateExtension(module: Uint8Array, config: Uint8Array): TypedExtensionConfig {
  const wasm = Wasm.fromPartial({
    config: {
      name: GATE,
      rootId: GATE,
      failurePolicy: FailurePolicy.FAIL_RELOAD,
      reloadConfig: { backoff: { baseInterval: duration(RELOAD_BACK_OFF_MS) } },
      // The gRPC door reads the model's name from the body before it decides.
      allowOnHeadersStopIteration: true,
      vm: {
        $case: "vmConfig",
        value: {
          vmId: "servemesh-gate",
          runtime: "envoy.wasm.runtime.v8",
          code: {
            specifier: {
              $case: "local",
              value: { specifier: { $case: "inlineBytes", value: Buffer.from(module) } },
            },
          },
        },
      },
      configuration: packAny(BytesValue, BytesValue.fromPartial({ value: Buffer.from(config) })),
    },
  });
  return TypedExtensionConfig.fromPartial({ name: GATE, typedConfig: packAny(Wasm, wasm) });
}
