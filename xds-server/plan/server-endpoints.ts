import { type EntryChange, LayeredMap } from "../platform/layered-map.js";
import { endpointKey, sortedEndpoints } from "./endpoints.js";
import type { Endpoint } from "./mesh-plan.js";

/**
 * Batchers that take server-level calls, at most. Each answers these from memory, so a few are enough; a list of all would
 * be sent again, as a whole, for every replica that comes or goes anywhere in the mesh.
 */
export const SERVER_ENDPOINTS_MAX = 64;

/** Endpoints for server-level calls, and what they were chosen from. */
export interface ServerView {
  /** Each ready endpoint once, with how many versions it serves. */
  readonly uses: LayeredMap<Use>;
  readonly chosen: readonly Endpoint[];
}

interface Use {
  readonly endpoint: Endpoint;
  readonly versions: number;
}

export function noServer(): ServerView {
  return { uses: LayeredMap.over(new Map()), chosen: [] };
}

/**
 * Takes a change of endpoints over. Up to the limit all ready endpoints are chosen; beyond it those with the smallest hash
 * of their address, so that every control plane chooses the same ones, over all machines, and few changes touch them.
 */
export function withEndpoints(view: ServerView, changes: readonly EntryChange<readonly Endpoint[]>[]): ServerView {
  const drafts = new Map<string, { endpoint: Endpoint; versions: number }>();
  const count = (endpoint: Endpoint, by: number): void => {
    const key = endpointKey(endpoint);
    const draft = drafts.get(key) ?? { endpoint, versions: view.uses.get(key)?.versions ?? 0 };
    drafts.set(key, { ...draft, versions: draft.versions + by });
  };
  for (const change of changes) {
    for (const endpoint of change.before ?? []) count(endpoint, -1);
    for (const endpoint of change.after ?? []) count(endpoint, 1);
  }
  const uses = view.uses.with([...drafts].map(([key, use]) => [key, use.versions === 0 ? undefined : use]));
  const cameOrWent = [...drafts.keys()].filter((key) => uses.has(key) !== view.uses.has(key));
  return { uses, chosen: isTouched(view.chosen, cameOrWent) ? choose(uses) : view.chosen };
}

function isTouched(chosen: readonly Endpoint[], cameOrWent: readonly string[]): boolean {
  if (cameOrWent.length === 0) return false;
  if (chosen.length < SERVER_ENDPOINTS_MAX) return true;
  const last = chosen.map(endpointKey).sort(byRank).at(-1) ?? "";
  return cameOrWent.some((key) => byRank(key, last) <= 0);
}

function choose(uses: ReadonlyMap<string, Use>): Endpoint[] {
  const keys = [...uses.keys()];
  const chosen = keys.length <= SERVER_ENDPOINTS_MAX ? keys : keys.sort(byRank).slice(0, SERVER_ENDPOINTS_MAX);
  return sortedEndpoints(chosen.map((key) => [key, (uses.get(key) as Use).endpoint]));
}

function byRank(a: string, b: string): number {
  const difference = hashOf(a) - hashOf(b);
  return difference !== 0 ? difference : a < b ? -1 : a > b ? 1 : 0;
}

/** FNV-1a, 32 bits: spreads neighbouring addresses well enough, and nobody gains by a collision. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193) >>> 0;
  return hash;
}
