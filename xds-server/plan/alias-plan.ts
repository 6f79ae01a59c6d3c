import { isDeepStrictEqual } from "node:util";
import type { Alias } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { Finding, RegistryState } from "../registry/state.js";
import { judgeAlias } from "./alias-policy.js";
import { aliasRoute } from "./alias-routes.js";
import type { ReadyEndpoints } from "./endpoints.js";
import { isUnreadable } from "./last-good.js";
import type { AliasPlan, AliasPolicy, ModelPlan } from "./mesh-plan.js";

/** What all aliases of a model are planned from. */
export interface AliasContext {
  readonly model: string;
  readonly modelDeadlineMs: number;
  /** The model's alias records. */
  readonly records: readonly Alias[];
  readonly state: RegistryState;
  readonly endpoints: ReadyEndpoints;
  readonly previous: ModelPlan | undefined;
}

/** All aliases of a model, sorted; one that is refused never touches the others. */
export function planAliases(context: AliasContext): { aliases: AliasPlan[]; findings: Finding[] } {
  const findings: Finding[] = [];
  const aliases: AliasPlan[] = [];
  const records = new Map<string, Alias>();
  for (const value of context.records) records.set(value.alias, value);
  const before = new Map((context.previous?.aliases ?? []).map((plan) => [plan.alias, plan]));
  for (const alias of [...new Set([...records.keys(), ...before.keys()])].sort()) {
    const record = records.get(alias);
    const lastGood = before.get(alias)?.policy;
    if (
      record === undefined &&
      !isUnreadable(context.state, `aliases/${context.model}/${alias}`, `${context.model}@${alias}`)
    ) {
      continue;
    }
    const choice =
      record === undefined ? { policy: lastGood, isLastGood: true, findings: [] } : choose(record, lastGood, context);
    const { route, findings: routeFindings } = aliasRoute(
      context.model,
      alias,
      choice.policy,
      context.modelDeadlineMs,
      context.endpoints,
    );
    findings.push(...choice.findings, ...routeFindings);
    aliases.push({ alias, isLastGood: choice.isLastGood, policy: choice.policy, route });
  }
  return { aliases, findings };
}

interface Choice {
  readonly policy: AliasPolicy | undefined;
  readonly isLastGood: boolean;
  readonly findings: readonly Finding[];
}

/**
 * Today's record, or what was in force before. A refused record changes nothing; after a restart, when nothing before is
 * known, its allowed part serves. A split that names versions without a ready replica waits for them while the old one
 * still serves, so that moving an alias too early is no outage.
 */
function choose(record: Alias, lastGood: AliasPolicy | undefined, context: AliasContext): Choice {
  const subject = `${record.model}@${record.alias}`;
  const verdict = judgeAlias(record, context.modelDeadlineMs, context.state);
  const findings = [...verdict.errors, ...verdict.warnings];
  if (verdict.errors.length > 0) {
    const isLastGood = lastGood !== undefined && !isDeepStrictEqual(lastGood, verdict.allowed);
    return { policy: lastGood ?? verdict.allowed, isLastGood, findings };
  }
  const { allowed } = verdict;
  const missing =
    lastGood === undefined || allowed === undefined ? [] : notReadyYet(allowed, lastGood, context.endpoints);
  if (lastGood === undefined || allowed === undefined || missing.length === 0) {
    return { policy: allowed, isLastGood: false, findings };
  }
  const message = `the last good split and its fallback stay until ${missing.join(", ")} has a ready replica; start one, or set the alias to ready versions`;
  // The fallback was checked against the primary of its own split, so the two stay together; the rest need not wait.
  const policy = { ...allowed, split: lastGood.split, fallback: lastGood.fallback };
  return { policy, isLastGood: true, findings: [...findings, { severity: "warning", subject, message }] };
}

function notReadyYet(next: AliasPolicy, lastGood: AliasPolicy, endpoints: ReadyEndpoints): string[] {
  if (isDeepStrictEqual(next.split, lastGood.split)) return [];
  const isReady = (version: string): boolean => (endpoints.get(version)?.length ?? 0) > 0;
  // Nothing is protected by a split that serves nobody.
  if (!lastGood.split.some((member) => isReady(member.version))) return [];
  const known = new Set(lastGood.split.map((member) => member.version));
  return next.split.map((member) => member.version).filter((version) => !known.has(version) && !isReady(version));
}
