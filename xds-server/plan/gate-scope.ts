import type { GateConfig } from "@servemesh/wasm-filters";

/** What a gate must know that judges calls of some models only: these, and the tenants that may call one of them. */
export function gateWithin(gate: GateConfig, models: readonly string[]): GateConfig {
  const names = new Set(models);
  return {
    models: gate.models.filter(({ name }) => names.has(name)),
    tenants: gate.tenants.filter((tenant) => tenant.models.some((model) => model === "*" || names.has(model))),
  };
}
