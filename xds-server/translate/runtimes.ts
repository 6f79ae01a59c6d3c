import { Runtime } from "@servemesh/proto/gen/envoy/envoy/service/runtime/v3/rtds.js";
import type { GatewayPlan } from "../plan/mesh-plan.js";
import { RUNTIME_LAYER } from "./names.js";

/** A layer of Envoy's runtime. */
export interface RuntimeLayer {
  readonly runtime: Runtime;
  /** How long it counts for an Envoy that hears nothing of us; undefined for ever. */
  readonly ttlMs: number | undefined;
}

/**
 * The layer of Envoy's runtime that a group has from its gateway record. It is there without settings too: Envoy waits for it
 * when it starts.
 */
export function translateRuntimes(gateway: Pick<GatewayPlan, "runtime" | "runtimeTtlMs"> | undefined): RuntimeLayer[] {
  if (gateway === undefined) return [];
  const { runtime, runtimeTtlMs: ttlMs } = gateway;
  const layer = Runtime.fromPartial({ name: RUNTIME_LAYER, layer: Object.fromEntries(runtime.map(entry)) });
  return [{ runtime: layer, ttlMs }];
}

/** Envoy tells numbers and switches from text by their type, so a setting has the one that its text looks like. */
function entry([key, text]: readonly [key: string, text: string]): [key: string, value: string | number | boolean] {
  if (text === "true" || text === "false") return [key, text === "true"];
  return [key, /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text];
}
