import { ApiVersion, ConfigSource } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/config_source.js";
import type { Duration } from "@servemesh/proto/gen/envoy/google/protobuf/duration.js";

/** How long a route table or an endpoint list may be missing before Envoy stops waiting for it. */
const RESOURCE_PATIENCE_MS = 5_000;

/** "Ask on the ADS stream", waiting at most `patienceMs` before Envoy goes on without the resource. */
export function adsSource(patienceMs: number = RESOURCE_PATIENCE_MS): ConfigSource {
  return ConfigSource.fromPartial({
    configSourceSpecifier: { $case: "ads", value: {} },
    resourceApiVersion: ApiVersion.V3,
    initialFetchTimeout: duration(patienceMs),
  });
}

/** Protobuf duration of whole milliseconds. */
export function duration(ms: number): Duration {
  return { seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1_000_000 };
}
