import { isDeepStrictEqual } from "node:util";
import { DEFAULT_ALIAS, H_PREDICT_STICKY, PRIORITY_BATCH } from "@servemesh/proto/names";
import type { GateConfig, GateModel, GateTenant } from "@servemesh/wasm-filters";
import type { RegistryState } from "../registry/state.js";
import type { ModelPlan } from "./mesh-plan.js";
import { positionOf, replaceNamed } from "./named-list.js";

/**
 * What the gate filter needs to judge a call: the models with all that may be asked for, and who may ask. The gate before
 * itself when nothing that it knows of changed, such as after a change of weights.
 * @param changed plans by model since the gate before; undefined for a model that is gone
 * @param areTenantsSame whether the tenants' records are those of the gate before
 */
export function planGate(
  changed: ReadonlyMap<string, ModelPlan | undefined>,
  state: RegistryState,
  before: GateConfig,
  areTenantsSame: boolean,
): GateConfig {
  const nameOf = ({ name }: GateModel): string => name;
  const updates = new Map<string, GateModel | undefined>();
  for (const [model, plan] of changed) {
    const at = positionOf(before.models, model, nameOf);
    const old = at === undefined ? undefined : before.models[at];
    const now = plan === undefined ? undefined : gateModel(plan);
    updates.set(model, isDeepStrictEqual(old, now) ? old : now);
  }
  const models = replaceNamed(before.models, updates, nameOf);
  const read = areTenantsSame ? before.tenants : gateTenants(state);
  const tenants = isDeepStrictEqual(read, before.tenants) ? before.tenants : read;
  return models === before.models && tenants === before.tenants ? before : { models, tenants };
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
