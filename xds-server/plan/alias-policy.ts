import {
  type Alias,
  type ServingSpec,
  type SplitMember,
  Stage,
  type TensorSpec,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { parseModelRef } from "@servemesh/proto/model-ref";
import { stageWord } from "../registry/stage-words.js";
import type { Finding, RegistryState } from "../registry/state.js";
import type { AliasPolicy, WeightedVersion } from "./mesh-plan.js";

/** Largest share of traffic that a version in stage staging may get from a split. */
export const STAGING_SHARE_MAX = 0.25;

/** What of an alias record is allowed. `errors` is empty exactly when all of it is. */
export interface AliasVerdict {
  /** The allowed part; undefined when no member of the split that would carry the traffic is allowed. */
  readonly allowed: AliasPolicy | undefined;
  readonly errors: readonly Finding[];
  readonly warnings: readonly Finding[];
}

/**
 * Checks an alias record against the registry: weights, stages (primary and fallback need production, a canary may be
 * staging up to a quarter, a shadow staging or production) and equal inputs and outputs of fallbacks.
 * @param modelDeadlineMs the model's own limit, which an alias may only lower
 */
export function judgeAlias(alias: Alias, modelDeadlineMs: number, state: RegistryState): AliasVerdict {
  const subject = `${alias.model}@${alias.alias}`;
  const errors: Finding[] = [];
  const refuse = (message: string): void => {
    errors.push({ severity: "error", subject, message });
  };
  const split = judgeSplit(alias, state, refuse);
  const primary = primaryOf(split);
  const fallback = judgeFallback(alias, primary?.version, state, refuse);
  const shadow = judgeShadow(alias, state, refuse);
  const deadline = judgeDeadline(alias, modelDeadlineMs, subject);
  const allowed = primary === undefined ? undefined : { split, fallback, shadow, deadlineMs: deadline.deadlineMs };
  return { allowed, errors, warnings: deadline.warnings };
}

type Refuse = (message: string) => void;

/** Members that may get traffic; empty when the split as a whole makes no sense or its primary is refused. */
function judgeSplit(alias: Alias, state: RegistryState, refuse: Refuse): WeightedVersion[] {
  const members = readWeights(alias.split, refuse);
  if (members === undefined) return [];
  const total = members.reduce((sum, member) => sum + member.weight, 0);
  const live = members
    .filter((member) => member.weight > 0)
    .map((member) => ({ version: `${alias.model}:${member.version}`, weight: member.weight }));
  const primary = primaryOf(live);
  if (primary === undefined) {
    refuse("split has no member with a weight above 0; give at least one version a weight");
    return [];
  }
  const problemOfPrimary = stageProblem(primary.version, state, PRODUCTION_ONLY);
  if (problemOfPrimary !== undefined) {
    refuse(`split: the primary ${primary.version} ${problemOfPrimary}`);
    return [];
  }
  return live.filter((member) => {
    if (member === primary) return true;
    const share = member.weight / total;
    const problem = stageProblem(member.version, state, share <= STAGING_SHARE_MAX ? STAGING_TOO : PRODUCTION_ONLY);
    if (problem === undefined) return true;
    const isTooMuch = stageProblem(member.version, state, STAGING_TOO) === undefined;
    refuse(
      isTooMuch
        ? `split: ${member.version} is in stage staging and may get at most ${STAGING_SHARE_MAX * 100} % of the traffic, not ${percent(share)}; lower its weight or promote it`
        : `split: ${member.version} ${problem}`,
    );
    return false;
  });
}

/** The member that carries most; of equal ones the first. */
function primaryOf(split: readonly WeightedVersion[]): WeightedVersion | undefined {
  return split.reduce<WeightedVersion | undefined>(
    (best, member) => (best === undefined || member.weight > best.weight ? member : best),
    undefined,
  );
}

function readWeights(split: readonly SplitMember[], refuse: Refuse): { version: bigint; weight: number }[] | undefined {
  const members: { version: bigint; weight: number }[] = [];
  const seen = new Set<bigint>();
  for (const { version, weight } of split) {
    if (weight === undefined) {
      // Absent and 0 must never be mixed up: elsewhere this has turned 100:0 into 50:50.
      refuse(`split: version ${version} has no weight; write 0 to take it out`);
      return undefined;
    }
    if (seen.has(version)) {
      refuse(`split: version ${version} is listed twice; list it once with the sum of its weights`);
      return undefined;
    }
    seen.add(version);
    members.push({ version, weight });
  }
  return members;
}

function judgeFallback(alias: Alias, primary: string | undefined, state: RegistryState, refuse: Refuse): string[] {
  const allowed = new Set<string>();
  for (const reference of alias.fallback) {
    const parsed = parseModelRef(reference);
    if (!parsed.ok) {
      refuse(`fallback: ${parsed.problem}`);
    } else if (parsed.pin?.kind !== "version") {
      refuse(`fallback: "${reference}" names no version; write model:version, for example ${parsed.model}:1`);
    } else {
      const problem = stageProblem(reference, state, PRODUCTION_ONLY) ?? signatureProblem(reference, primary, state);
      if (problem === undefined) allowed.add(reference);
      else refuse(`fallback: ${reference} ${problem}`);
    }
  }
  return [...allowed];
}

function judgeShadow(alias: Alias, state: RegistryState, refuse: Refuse): string | undefined {
  if (alias.shadow === undefined) return undefined;
  const version = `${alias.model}:${alias.shadow.version}`;
  const problem = stageProblem(version, state, STAGING_TOO);
  if (problem === undefined) return version;
  refuse(`shadow: ${version} ${problem}`);
  return undefined;
}

function judgeDeadline(alias: Alias, modelMs: number, subject: string): { deadlineMs: number; warnings: Finding[] } {
  if (alias.deadlineMs === 0) return { deadlineMs: modelMs, warnings: [] };
  if (alias.deadlineMs <= modelMs) return { deadlineMs: alias.deadlineMs, warnings: [] };
  const message = `deadline_ms ${alias.deadlineMs} is above the model's ${modelMs}, which is used instead; an alias may only lower it`;
  return { deadlineMs: modelMs, warnings: [{ severity: "warning", subject, message }] };
}

const PRODUCTION_ONLY: readonly Stage[] = [Stage.STAGE_PRODUCTION];
const STAGING_TOO: readonly Stage[] = [Stage.STAGE_PRODUCTION, Stage.STAGE_STAGING];

function stageProblem(version: string, state: RegistryState, allowed: readonly Stage[]): string | undefined {
  if (!state.versions.has(version)) return "is not registered; register it first";
  const stage = state.stages.get(version) ?? Stage.STAGE_REGISTERED;
  if (allowed.includes(stage)) return undefined;
  const wanted = allowed.map(stageWord).join(" or ");
  return `is in stage ${stageWord(stage)} but must be in ${wanted}; move its stage or name another version`;
}

/** A caller must not notice a fallback by its shape: inputs and outputs have to be equal. */
function signatureProblem(fallback: string, primary: string | undefined, state: RegistryState): string | undefined {
  if (primary === undefined) return undefined;
  const mine = state.versions.get(fallback)?.value.serving;
  const theirs = state.versions.get(primary)?.value.serving;
  for (const side of ["inputs", "outputs"] as const) {
    if (signature(mine, side) !== signature(theirs, side)) {
      return `has other ${side} than ${primary}; a fallback needs the same names, datatypes and shapes`;
    }
  }
  return undefined;
}

function signature(serving: ServingSpec | undefined, side: "inputs" | "outputs"): string {
  return (serving?.[side] ?? [])
    .map((tensor: TensorSpec) => `${tensor.name} ${tensor.datatype} [${tensor.shape.join()}] ${tensor.optional}`)
    .sort()
    .join("; ");
}

function percent(share: number): string {
  return `${Math.round(share * 1000) / 10} %`;
}
