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
import { type ReadyEndpoints, readyEndpoints, unionOf } from "./endpoints.js";
import { planGate } from "./gate-plan.js";
import { planGateway } from "./gateway-plan.js";
import { isUnreadable } from "./last-good.js";
import type { ClusterPlan, MeshPlan, ModelPlan, RoutePlan } from "./mesh-plan.js";
import { clusterName, modelOf } from "./names.js";

/** Limit of a call in ms for a model that names none. */
export const DEFAULT_DEADLINE_MS = 10_000;

/**
 * Plans the mesh from one registry state. Pure; never throws for what a record says: each problem is a finding, and one
 * bad record never touches another model.
 * @param previous the plan in force, from which last good aliases, models and listeners are kept
 */
export function planMesh(state: RegistryState, previous?: MeshPlan): MeshPlan {
  const { endpoints, findings: replicaFindings } = readyEndpoints(state);
  const findings: Finding[] = [...state.findings, ...replicaFindings];
  const models: ModelPlan[] = [];
  const before = new Map((previous?.models ?? []).map((plan) => [plan.model, plan]));
  const belongings = belongingsOf(state);
  for (const [model, record] of modelRecords(state, before)) {
    const planned = planModel(record, belongings.get(model) ?? NO_BELONGINGS, state, endpoints, before.get(model));
    findings.push(...planned.findings);
    models.push(planned.plan);
  }
  findings.push(...orphanFindings(state));
  const { gateway, findings: gatewayFindings } = planGateway(state, previous?.gateway);
  findings.push(...gatewayFindings, ...signatureFinding(state));
  return {
    models,
    clusters: planClusters(models, endpoints),
    server: unionOf(endpoints),
    gateway,
    gate: planGate(models, state),
    findings,
  };
}

/** Today's models and those whose record became unreadable, sorted by name. */
function modelRecords(state: RegistryState, before: ReadonlyMap<string, ModelPlan>): [string, Model][] {
  const records = new Map<string, Model>();
  for (const [name, { value }] of state.models) records.set(name, value);
  for (const [name, plan] of before) {
    if (!records.has(name) && isUnreadable(state, `models/${name}`, name)) records.set(name, plan.record);
  }
  return [...records].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Records of one model, collected once, so that planning many models stays linear. */
interface Belongings {
  readonly aliases: Alias[];
  /** Versions that callers may pin: those in stage staging or production. */
  readonly served: ModelVersion[];
}

const NO_BELONGINGS: Belongings = { aliases: [], served: [] };

function belongingsOf(state: RegistryState): ReadonlyMap<string, Belongings> {
  const byModel = new Map<string, Belongings>();
  const of = (model: string): Belongings => {
    const known = byModel.get(model) ?? { aliases: [], served: [] };
    byModel.set(model, known);
    return known;
  };
  for (const { value } of state.aliases.values()) of(value.model).aliases.push(value);
  for (const [reference, { value }] of state.versions) {
    if (isServed(state.stages.get(reference))) of(value.model).served.push(value);
  }
  return byModel;
}

function isServed(stage: Stage | undefined): boolean {
  return stage === Stage.STAGE_STAGING || stage === Stage.STAGE_PRODUCTION;
}

function planModel(
  record: Model,
  { aliases: records, served }: Belongings,
  state: RegistryState,
  endpoints: ReadyEndpoints,
  previous: ModelPlan | undefined,
): { plan: ModelPlan; findings: Finding[] } {
  const model = record.name;
  const deadlineMs = record.slo?.deadlineMs || DEFAULT_DEADLINE_MS;
  const context = { model, modelDeadlineMs: deadlineMs, records, state, endpoints, previous };
  const { aliases, findings } = planAliases(context);
  const defaultAlias = record.defaultAlias || DEFAULT_ALIAS;
  if (!aliases.some((plan) => plan.alias === defaultAlias)) {
    const message = `the default alias ${model}@${defaultAlias} does not exist, so the bare name is not found; set that alias or another default_alias`;
    findings.push({ severity: "warning", subject: model, message });
  }
  const pinned = [...served]
    .sort((a, b) => (a.version < b.version ? -1 : 1))
    .map(({ version }) => pinnedRoute(`${model}:${version}`, deadlineMs, endpoints));
  return { plan: { model, record, deadlineMs, aliases, pinned }, findings };
}

/** One cluster per version that some route may name. A last good split may still name an archived one. */
function planClusters(models: readonly ModelPlan[], endpoints: ReadyEndpoints): ClusterPlan[] {
  const versions = new Set<string>();
  for (const { pinned, aliases } of models) {
    for (const { first } of pinned) for (const version of first) versions.add(version);
    for (const { policy } of aliases) {
      if (policy === undefined) continue;
      for (const member of policy.split) versions.add(member.version);
      for (const version of policy.fallback) versions.add(version);
      if (policy.shadow !== undefined) versions.add(policy.shadow);
    }
  }
  return [...versions]
    .map((version) => ({ name: clusterName(version), version, endpoints: endpoints.get(version) ?? [] }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** All routes of a model: aliases first, then pinned versions. */
export function routesOf(model: ModelPlan): RoutePlan[] {
  return [...model.aliases.map((alias) => alias.route), ...model.pinned];
}

/** Records that belong to a model that does not exist. */
function orphanFindings(state: RegistryState): Finding[] {
  const message = "belongs to a model that is not registered, so nothing routes to it; register the model";
  const subjects = [
    ...[...state.aliases.values()]
      .filter(({ value }) => !state.models.has(value.model))
      .map(({ value }) => `${value.model}@${value.alias}`),
    ...[...state.versions.keys()].filter((reference) => !state.models.has(modelOf(reference))),
  ];
  return subjects.sort().map((subject) => ({ severity: "warning", subject, message }));
}

/** Stands until version envelopes are verified, so that nobody takes an unchecked signature for a checked one. */
function signatureFinding(state: RegistryState): Finding[] {
  if (state.versions.size === 0) return [];
  return [{ severity: "warning", subject: "versions", message: "signatures are not checked yet" }];
}
