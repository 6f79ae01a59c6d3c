import { isDeepStrictEqual } from "node:util";
import { changesBetween, type EntryChange, type LayeredMap } from "../platform/layered-map.js";
import type { Finding, RegistryState } from "../registry/state.js";
import { nameSameVersions, planClusters, withClusterEndpoints } from "./cluster-plans.js";
import { fallbacksOf, withFallbacks } from "./dependents.js";
import { withReplicas } from "./endpoints.js";
import { planGate } from "./gate-plan.js";
import { planGateways } from "./gateway-plan.js";
import { regroup } from "./groups.js";
import type { Endpoint, MeshPlan, ModelPlan, RoutePlan } from "./mesh-plan.js";
import { type PlannedModel, planModel } from "./model-plan.js";
import { positionOf, replaceNamed } from "./named-list.js";
import { modelOf } from "./names.js";
import { type PlanMemo, recall, remember } from "./plan-memo.js";
import { changesOf, haveNamesChanged, type RegistryChanges } from "./registry-changes.js";
import { withEndpoints } from "./server-endpoints.js";

const NO_PLAN: MeshPlan = {
  models: [],
  clusters: [],
  server: [],
  gateways: [],
  gate: { models: [], tenants: [] },
  findings: [],
};

/**
 * Plans the mesh from one registry state. Pure; never throws for what a record says: each problem is a finding, and one
 * bad record never touches another model.
 *
 * Only models are planned of which something changed: their own records, whether a version of theirs is ready, or a version
 * that they fall back on. All else is shared with the plan before, object by object, so that later stages can do the same;
 * when nothing changed the plan is the one before.
 * @param previous the plan in force, from which last good aliases, models and listeners are kept
 */
export function planMesh(state: RegistryState, previous?: MeshPlan): MeshPlan {
  const before = previous ?? NO_PLAN;
  const { memo, isKnown } = recall(previous);
  const changes = changesOf(memo.state, state);
  const records = withRecords(memo, changes);
  const { endpoints } = records.replicas;
  const isPartial = isKnown && !changes.findings;
  const affected = isPartial ? affectedModels(changes, records, memo) : allModels(state, before);
  const planned = planModels(affected, state, records, before);
  const plans = new Map([...planned].map(([model, { plan }]) => [model, plan]));
  const models = replaceNamed(before.models, plans, nameOfModel);
  const namesSameClusters =
    isKnown && [...plans].every(([model, plan]) => nameSameVersions(planOf(before, model), plan));
  const troubled = withFindings(memo.troubled, planned);
  const orphans = isKnown && !haveNamesChanged(changes) ? memo.orphans : orphanFindings(state);
  const { gateways, findings: gatewayFindings } = planGateways(state, before.gateways);
  const plan: MeshPlan = {
    models,
    clusters: namesSameClusters
      ? withClusterEndpoints(before.clusters, endpoints, records.endpointChanges)
      : planClusters(models, endpoints, before.clusters),
    server: records.server.chosen,
    gateways,
    gate: planGate(plans, state, before.gate, isKnown && memo.state.tenants === state.tenants),
    findings: [
      ...state.findings,
      ...inOrder(records.replicas.troubled),
      ...inOrder(troubled),
      ...orphans,
      ...gatewayFindings,
      ...signatureFinding(state),
    ],
  };
  const dependents = withFallbacks(
    memo.dependents,
    [...plans].map(([model, now]) => [model, fallbacksOf(records.aliases.get(model)?.values() ?? [], now)]),
  );
  const result = previous !== undefined && areSame(plan, previous) ? previous : plan;
  const { aliases, versions, replicas, server } = records;
  return remember(result, { state, aliases, versions, replicas, server, dependents, troubled, orphans });
}

/** What models are planned from, brought up to date. */
type Records = Pick<PlanMemo, "aliases" | "versions" | "replicas" | "server"> & {
  readonly endpointChanges: readonly EntryChange<readonly Endpoint[]>[];
};

function withRecords(memo: PlanMemo, changes: RegistryChanges): Records {
  const replicas = withReplicas(memo.replicas, changes.replicas);
  const endpointChanges = changesBetween(memo.replicas.endpoints, replicas.endpoints);
  return {
    aliases: regroup(memo.aliases, changes.aliases, ({ model }) => model),
    versions: regroup(memo.versions, changes.versions, ({ model }) => model),
    replicas,
    endpointChanges,
    server: withEndpoints(memo.server, endpointChanges),
  };
}

/** Models whose plan may come out differently: those that own what changed, and those that fall back on it. */
function affectedModels(changes: RegistryChanges, { endpointChanges }: Records, memo: PlanMemo): Set<string> {
  const affected = new Set(changes.models.map(({ key }) => key));
  for (const { before, after } of changes.aliases) {
    if (before !== undefined) affected.add(before.value.model);
    if (after !== undefined) affected.add(after.value.model);
  }
  // A route names clusters, not endpoints: how many are ready does not matter, only whether any is.
  const cameOrWent = endpointChanges.filter(({ before, after }) => before === undefined || after === undefined);
  for (const { key } of [...changes.versions, ...changes.stages, ...cameOrWent]) {
    affected.add(modelOf(key));
    for (const model of memo.dependents.models.get(key) ?? []) affected.add(model);
  }
  return affected;
}

function allModels(state: RegistryState, before: MeshPlan): Set<string> {
  return new Set([...state.models.keys(), ...before.models.map(nameOfModel)]);
}

function planModels(
  names: ReadonlySet<string>,
  state: RegistryState,
  records: Records,
  before: MeshPlan,
): ReadonlyMap<string, PlannedModel> {
  const planned = new Map<string, PlannedModel>();
  for (const name of names) {
    const context = {
      state,
      endpoints: records.replicas.endpoints,
      aliases: records.aliases.get(name)?.values() ?? [],
      versions: records.versions.get(name)?.values() ?? [],
      previous: planOf(before, name),
    };
    planned.set(name, planModel(name, context));
  }
  return planned;
}

function nameOfModel({ model }: ModelPlan): string {
  return model;
}

function planOf({ models }: MeshPlan, model: string): ModelPlan | undefined {
  const at = positionOf(models, model, nameOfModel);
  return at === undefined ? undefined : models[at];
}

/** All routes of a model: aliases first, then pinned versions. */
export function routesOf(model: ModelPlan): RoutePlan[] {
  return [...model.aliases.map((alias) => alias.route), ...model.pinned];
}

type FindingsByName = LayeredMap<readonly Finding[]>;

function withFindings(before: FindingsByName, planned: ReadonlyMap<string, PlannedModel>): FindingsByName {
  return before.with(
    [...planned].map(([model, { findings }]) => [model, findings.length === 0 ? undefined : findings]),
  );
}

function inOrder(findings: FindingsByName): Finding[] {
  if (findings.size === 0) return [];
  return [...findings].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, list]) => list);
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

function areSame(a: MeshPlan, b: MeshPlan): boolean {
  return (
    a.models === b.models &&
    a.clusters === b.clusters &&
    a.server === b.server &&
    a.gateways === b.gateways &&
    a.gate === b.gate &&
    isDeepStrictEqual(a.findings, b.findings)
  );
}
