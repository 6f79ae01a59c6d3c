import { Runtime } from "@servemesh/proto/gen/envoy/envoy/service/runtime/v3/rtds.js";
import type { GatewayPlan } from "../plan/mesh-plan.js";
import { RUNTIME_LAYER } from "./names.js";

/**
 * The layer of Envoy's runtime that a group has from its gateway record. It is there without settings too: Envoy waits for it
 * when it starts.
 */
export function translateRuntimes(gateway: Pick<GatewayPlan, "runtime"> | undefined): Runtime[] {
  if (gateway === undefined) return [];
  return [Runtime.fromPartial({ name: RUNTIME_LAYER, layer: Object.fromEntries(gateway.runtime.map(entry)) })];
}

/** Envoy tells numbers and switches from text by their type, so a setting has the one that its text looks like. */
function entry([key, text]: readonly [key: string, text: string]): [key: string, value: string | number | boolean] {
  if (text === "true" || text === "false") return [key, text === "true"];
  return [key, /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text];
}
