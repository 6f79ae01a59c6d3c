import { isDeepStrictEqual } from "node:util";
import {
  type Alias,
  type Model,
  type ModelVersion,
  Stage,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { DEFAULT_ALIAS } from "@servemesh/proto/names";
import type { Finding, RegistryState } from "../registry/state.js";
import { planAliases } from "./alias-plan.js";
import { pinnedRoute } from "./alias-routes.js";
import type { ReadyEndpoints } from "./endpoints.js";
import { isUnreadable } from "./last-good.js";
import type { ModelPlan } from "./mesh-plan.js";

/** Limit of a call in ms for a model that names none. */
export const DEFAULT_DEADLINE_MS = 10_000;

/** What one model is planned from, beside its name. */
export interface ModelContext {
  readonly state: RegistryState;
  readonly endpoints: ReadyEndpoints;
  /** The model's alias records. */
  readonly aliases: Iterable<Alias>;
  /** The model's version records. */
  readonly versions: Iterable<ModelVersion>;
  /** The model's plan in force. */
  readonly previous: ModelPlan | undefined;
}

export interface PlannedModel {
  /** Undefined when there is no such model. The previous plan itself when this one would be equal. */
  readonly plan: ModelPlan | undefined;
  readonly findings: readonly Finding[];
}

const NO_MODEL: PlannedModel = { plan: undefined, findings: [] };

/** Plans one model: today's record, or the one before while today's is unreadable. */
export function planModel(model: string, context: ModelContext): PlannedModel {
  const { state, previous } = context;
  const today = state.models.get(model)?.value;
  if (today !== undefined) return planRecord(today, context);
  const isKept = previous !== undefined && isUnreadable(state, `models/${model}`, model);
  return isKept ? planRecord(previous.record, context) : NO_MODEL;
}

function planRecord(record: Model, { state, endpoints, previous, ...belongings }: ModelContext): PlannedModel {
  const model = record.name;
  const deadlineMs = record.slo?.deadlineMs || DEFAULT_DEADLINE_MS;
  const records = [...belongings.aliases];
  const { aliases, findings } = planAliases({
    model,
    modelDeadlineMs: deadlineMs,
    records,
    state,
    endpoints,
    previous,
  });
  const defaultAlias = record.defaultAlias || DEFAULT_ALIAS;
  if (!aliases.some((plan) => plan.alias === defaultAlias)) {
    const message = `the default alias ${model}@${defaultAlias} does not exist, so the bare name is not found; set that alias or another default_alias`;
    findings.push({ severity: "warning", subject: model, message });
  }
  const pinned = [...belongings.versions]
    .filter(({ version }) => isServed(state.stages.get(`${model}:${version}`)))
    .sort((a, b) => (a.version < b.version ? -1 : 1))
    .map(({ version }) => pinnedRoute(`${model}:${version}`, deadlineMs, endpoints));
  const plan: ModelPlan = { model, record, deadlineMs, aliases, pinned };
  return { plan: isDeepStrictEqual(plan, previous) ? previous : plan, findings };
}

/** Versions that callers may pin are those in stage staging or production. */
function isServed(stage: Stage | undefined): boolean {
  return stage === Stage.STAGE_STAGING || stage === Stage.STAGE_PRODUCTION;
}
