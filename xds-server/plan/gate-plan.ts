import { DEFAULT_ALIAS, H_PREDICT_STICKY, PRIORITY_BATCH } from "@servemesh/proto/names";
import type { GateConfig, GateModel, GateTenant } from "@servemesh/wasm-filters";
import type { RegistryState } from "../registry/state.js";
import type { ModelPlan } from "./mesh-plan.js";

/** What the gate filter needs to judge a call: the models with all that may be asked for, and who may ask. */
export function planGate(models: readonly ModelPlan[], state: RegistryState): GateConfig {
  return { models: models.map(gateModel), tenants: gateTenants(state) };
}

function gateModel(plan: ModelPlan): GateModel {
  const { record } = plan;
  return {
    name: plan.model,
    defaultAlias: record.defaultAlias || DEFAULT_ALIAS,
    deadlineMs: plan.deadlineMs,
    allowedTenants: [...record.allowedTenants].sort(),
    stickyHeader: (record.stickyHeader || H_PREDICT_STICKY).toLowerCase(),
    aliases: plan.aliases.map(({ alias, route }) => ({
      name: alias,
      deadlineMs: route.deadlineMs,
      ...(route.shadow === undefined ? {} : { shadowCluster: route.shadow.cluster }),
    })),
    versions: plan.pinned.map(({ key }) => BigInt(key.slice(key.indexOf("/") + 1))),
  };
}

function gateTenants(state: RegistryState): GateTenant[] {
  return [...state.tenants.values()]
    .map(({ value }) => ({
      name: value.name,
      keyDigests: value.keys.map((key) => key.sha256).sort(Buffer.compare),
      models: [...value.models].sort(),
      // Whatever else the record says never raises a tenant above interactive.
      priority: value.plan?.priority === PRIORITY_BATCH ? ("batch" as const) : ("interactive" as const),
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}
