import {
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  SCOPE_TYPE,
  VIRTUAL_HOST_TYPE,
} from "../snapshot/resource-types.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import { REMOVED } from "./node-record.js";
import type { Item, TypeState } from "./type-state.js";

/**
 * Whether an entry may be sent now. `wait`: something else must be accepted first, and after a time it goes anyway.
 * `hold`: what it needs was refused, so sending it would break what still works.
 */
export type Passage = "go" | "wait" | "hold";

/** One stream and where it shall get to. */
export interface StreamView {
  /** The types that it has asked for so far. */
  readonly states: ReadonlyMap<ResourceType, TypeState>;
  readonly target: Snapshot;
  /** True for an Envoy that holds things from an earlier stream: it will ask for the other types at once. */
  readonly isResumed: boolean;
  /** True while this Envoy refuses anything. */
  readonly hasRefused: boolean;
}

/**
 * Make before break, as conditions on what this Envoy has accepted:
 *
 *   clusters ─▶ endpoints ─▶ scopes, routes ─▶ gate's configuration ─▶ scopes removed ─▶ endpoints emptied, clusters removed
 *
 * Routes do not warm in Envoy, so one that names a cluster waits until the cluster was accepted (which means warm). The
 * gate learns of a model after its routes and forgets it before them.
 */
export function passageOf(type: ResourceType, item: Item, view: StreamView): Passage {
  if (item.version === REMOVED) return removalPassage(type, item.name, view);
  switch (type) {
    case SCOPE_TYPE:
      return scopePassage(item, view);
    case ROUTE_TYPE:
    case VIRTUAL_HOST_TYPE:
      return routePassage(type, item, view);
    case EXTENSION_TYPE:
      return extensionPassage(item, view);
    case ENDPOINT_TYPE:
      return endpointPassage(item, view);
    default:
      return "go";
  }
}

function removalPassage(type: ResourceType, name: string, view: StreamView): Passage {
  if (type === SCOPE_TYPE) return hasGateSettled(view) ? "go" : "wait";
  if (type !== CLUSTER_TYPE) return "go";
  // The gate may still name the cluster for mirrored copies.
  if (!hasGateSettled(view)) return "wait";
  return isNamedByUser(name, view) ? "wait" : usePassage(name, view);
}

/**
 * gRPC names each cluster that it uses, and drops the name when its calls have moved. That is a moment after it accepted the
 * routes which lead elsewhere.
 */
function isNamedByUser(cluster: string, { states, isResumed }: StreamView): boolean {
  return states.get(CLUSTER_TYPE)?.subscribedNames.has(cluster) === true && (states.has(ROUTE_TYPE) || isResumed);
}

/**
 * A full state that replaces whatever the client held on an earlier stream: clusters that it leaves out are removals, of
 * which nothing else tells.
 * @returns names that the client still uses and that would be gone
 */
export function goneByState(type: ResourceType, view: StreamView): string[] {
  const state = view.states.get(type);
  if (type !== CLUSTER_TYPE || state?.isWhole !== true) return [];
  return [...state.subscribedNames].filter((name) => !view.target.byType[type].has(name) && isNamedByUser(name, view));
}

function scopePassage(item: Item, view: StreamView): Passage {
  const tables = item.resource?.needs ?? [];
  const clusters = tables.flatMap((table) => view.target.byType[ROUTE_TYPE].get(table)?.needs ?? []);
  return clusterPassage(clusters, view, view.states.get(SCOPE_TYPE)?.heldVersion(item.name) !== undefined);
}

function routePassage(type: ResourceType, item: Item, view: StreamView): Passage {
  const isHeld = view.states.get(type)?.heldVersion(item.name) !== undefined;
  return clusterPassage(item.resource?.needs ?? [], view, isHeld);
}

/** @param isHeld whether an older state still serves, so that waiting costs nothing */
function clusterPassage(names: readonly string[], view: StreamView, isHeld: boolean): Passage {
  if (areAllUsable(view)) return "go";
  let passage: Passage = "go";
  for (const name of names) {
    if (isUsable(name, view)) continue;
    if (isHeld && isRefused(CLUSTER_TYPE, name, view)) return "hold";
    // Nothing serves yet: a table with one dead cluster is better than none.
    if (!isRefused(CLUSTER_TYPE, name, view)) passage = "wait";
  }
  return passage;
}

/** The common case in one look, however many clusters a table names: all that is wanted was accepted. */
function areAllUsable({ states, target, hasRefused }: StreamView): boolean {
  const clusters = states.get(CLUSTER_TYPE);
  if (clusters === undefined || hasRefused) return clusters === undefined;
  const endpoints = states.get(ENDPOINT_TYPE);
  const isMissing = (state: TypeState, type: ResourceType): boolean => state.pending(target.byType[type]).length > 0;
  if (clusters.outstanding !== undefined || isMissing(clusters, CLUSTER_TYPE)) return false;
  return endpoints === undefined || !isMissing(endpoints, ENDPOINT_TYPE);
}

/** Accepted in some version, with its present endpoints on the way to Envoy at least. */
function isUsable(cluster: string, view: StreamView): boolean {
  const clusters = view.states.get(CLUSTER_TYPE);
  // A client that names its clusters asks for one only after it has read the routes to it.
  if (clusters === undefined || !clusters.isSubscribed(cluster)) return true;
  // Named on an earlier stream already, and what the client waits for may wait for these routes itself.
  if (goneByState(CLUSTER_TYPE, view).length > 0 && clusters.subscribedNames.has(cluster)) return true;
  if (clusters.heldVersion(cluster) === undefined || clusters.isUnderWay(cluster, REMOVED)) return false;
  const endpoints = view.states.get(ENDPOINT_TYPE);
  const wanted = view.target.byType[ENDPOINT_TYPE].get(cluster)?.version;
  if (endpoints === undefined || wanted === undefined || !endpoints.isSubscribed(cluster)) return true;
  // One stream is processed in order, so endpoints that left before the routes are there before them.
  return (
    endpoints.isHeldForGood(cluster, wanted) ||
    endpoints.isUnderWay(cluster, wanted) ||
    endpoints.isRejected(cluster, wanted)
  );
}

function isRefused(type: ResourceType, name: string, view: StreamView): boolean {
  const wanted = view.target.byType[type].get(name)?.version;
  return wanted !== undefined && (view.states.get(type)?.isRejected(name, wanted) ?? false);
}

function extensionPassage(item: Item, view: StreamView): Passage {
  // The first configuration is part of Envoy's start and waits for nobody.
  if (view.states.get(EXTENSION_TYPE)?.heldVersion(item.name) === undefined) return "go";
  const isSettled = [SCOPE_TYPE, ROUTE_TYPE].every((type) => haveAdditionsSettled(type as ResourceType, view));
  return isSettled ? "go" : "wait";
}

/** An endpoint list that becomes empty waits for the routes that leave the cluster. */
function endpointPassage(item: Item, view: StreamView): Passage {
  if (item.resource?.isEmpty !== true) return "go";
  const endpoints = view.states.get(ENDPOINT_TYPE);
  if (endpoints?.heldVersion(item.name) === undefined) return "go";
  if (endpoints.heldResource(item.name, view.target.byType[ENDPOINT_TYPE])?.isEmpty === true) return "go";
  return usePassage(item.name, view);
}

/** Whether a route table that Envoy holds or is about to, and that is going to change, may lead to a cluster. */
function usePassage(cluster: string, view: StreamView): Passage {
  const routes = view.states.get(ROUTE_TYPE);
  if (routes === undefined) return view.isResumed ? "wait" : "go";
  const target = view.target.byType[ROUTE_TYPE];
  let passage: Passage = "go";
  for (const name of routes.namesInUse()) {
    const others = routes.otherContents(name, target.get(name)?.version, target);
    if (!others.some((table) => table === undefined || table.needs.includes(cluster))) continue;
    if (isRefused(ROUTE_TYPE, name, view)) return "hold";
    passage = "wait";
  }
  return passage;
}

function hasGateSettled(view: StreamView): boolean {
  return haveAdditionsSettled(EXTENSION_TYPE, view);
}

/** True when Envoy holds, or has refused, everything of a type that it asked for. */
function haveAdditionsSettled(type: ResourceType, view: StreamView): boolean {
  const state = view.states.get(type);
  if (state === undefined) return !view.isResumed;
  if (state.outstanding === undefined && state.pending(view.target.byType[type]).length === 0) return true;
  for (const [name, resource] of view.target.byType[type]) {
    if (!state.isSubscribed(name) || state.isHeldForGood(name, resource.version)) continue;
    if (!state.isRejected(name, resource.version)) return false;
  }
  return true;
}
