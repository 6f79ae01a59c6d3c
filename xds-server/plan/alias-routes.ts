import type { Finding } from "../registry/state.js";
import type { ReadyEndpoints } from "./endpoints.js";
import type { AliasPolicy, GroupPlan, RoutePlan, ShadowPlan } from "./mesh-plan.js";
import { clusterName, routeKey } from "./names.js";

/** How much longer than a caller a mirrored copy may take. */
const SHADOW_PATIENCE = 2;
const SHADOW_TIMEOUT_MIN_MS = 1_000;

/**
 * Route of an alias from what is allowed and what is ready. A cluster without endpoints leaves the split and the
 * fallbacks, because Envoy answers 503 for it and never retries; what is left moves up.
 */
export function aliasRoute(
  model: string,
  alias: string,
  policy: AliasPolicy | undefined,
  modelDeadlineMs: number,
  endpoints: ReadyEndpoints,
): { route: RoutePlan; findings: Finding[] } {
  const key = routeKey(model, alias);
  if (policy === undefined) {
    const route = { key, first: [], groups: [], shadow: undefined, deadlineMs: modelDeadlineMs };
    return { route, findings: [] };
  }
  const isReady = (version: string): boolean => (endpoints.get(version)?.length ?? 0) > 0;
  const findings: Finding[] = [];
  const warn = (message: string): void => {
    findings.push({ severity: "warning", subject: `${model}@${alias}`, message });
  };
  for (const { version } of policy.split) {
    if (!isReady(version)) warn(`${version} has no ready replica and gets no traffic until one is ready`);
  }
  for (const version of policy.fallback) {
    if (!isReady(version)) warn(`fallback ${version} has no ready replica and is skipped until one is ready`);
  }
  if (policy.shadow !== undefined && !isReady(policy.shadow)) {
    warn(`shadow ${policy.shadow} has no ready replica; its copies are lost until one is ready`);
  }
  const groups = readyGroups(policy, isReady);
  if (groups.length === 0)
    warn("no version of the split or of the fallbacks is ready: calls are answered 503 unavailable");
  const route: RoutePlan = {
    key,
    first: policy.split.map((member) => member.version),
    groups,
    shadow: policy.shadow === undefined ? undefined : shadowPlan(policy.shadow, modelDeadlineMs),
    // The model's limit may have been lowered since a last good policy was accepted.
    deadlineMs: Math.min(policy.deadlineMs, modelDeadlineMs),
  };
  return { route, findings };
}

/** Route of a pinned version: that version or nothing. */
export function pinnedRoute(version: string, modelDeadlineMs: number, endpoints: ReadyEndpoints): RoutePlan {
  const [model = "", number = ""] = version.split(":");
  const policy = { split: [{ version, weight: 1 }], fallback: [], shadow: undefined, deadlineMs: modelDeadlineMs };
  const isReady = (endpoints.get(version)?.length ?? 0) > 0;
  return {
    key: routeKey(model, number),
    first: [version],
    groups: readyGroups(policy, () => isReady),
    shadow: undefined,
    deadlineMs: modelDeadlineMs,
  };
}

function readyGroups(policy: AliasPolicy, isReady: (version: string) => boolean): GroupPlan[] {
  const groups: GroupPlan[] = [];
  const split = policy.split.filter((member) => isReady(member.version));
  if (split.length > 0) {
    const clusters = split.map(({ version, weight }) => ({ cluster: clusterName(version), weight }));
    groups.push({ name: "split", clusters });
  }
  for (const version of policy.fallback.filter(isReady)) {
    groups.push({ name: `fallback ${version}`, clusters: [{ cluster: clusterName(version), weight: 1 }] });
  }
  return groups;
}

/** The model's limit, not the alias's: a copy that is slower than a strict alias still tells something. */
function shadowPlan(version: string, modelDeadlineMs: number): ShadowPlan {
  const timeoutMs = Math.max(modelDeadlineMs * SHADOW_PATIENCE, SHADOW_TIMEOUT_MIN_MS);
  return { cluster: clusterName(version), timeoutMs };
}
