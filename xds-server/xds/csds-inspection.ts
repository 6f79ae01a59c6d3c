import type { Resource } from "../snapshot/resource.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import { REMOVED } from "./node-record.js";
import type { TypeState } from "./type-state.js";

/**
 * How far one resource of one Envoy is: `acked` it has what it shall have, `pending` not sent yet, `under_way` sent and not
 * answered, `refused` not offered again until the content changes, `absent` asked for although there is none.
 */
export type ResourceState = "acked" | "pending" | "under_way" | "refused" | "absent";

/** One resource as one Envoy has it. */
export interface ResourceInspection {
  readonly name: string;
  readonly state: ResourceState;
  /** Content hash that the Envoy shall have; empty when it shall have none. */
  readonly version: string;
  /** Content hash that it accepted last; empty for none. */
  readonly ackedVersion: string;
  /** Content hash that was sent and not answered; empty for none and for a removal. */
  readonly underWayVersion: string;
  /** What it was sent last, else what it shall have; undefined when only a version is known, from a stream before. */
  readonly resource: Resource | undefined;
  /** What it shall have: of a refused resource this is the content that it refuses. */
  readonly wanted: Resource | undefined;
}

export interface TypeInspection {
  readonly typeUrl: string;
  /** Version of the whole type in the state that the Envoy shall have; empty before there is one. */
  readonly version: string;
  /** Sorted by name. */
  readonly resources: readonly ResourceInspection[];
}

/**
 * Everything of one type that an Envoy asked for, holds or is being sent. Costs one step per resource: for people who ask,
 * never for the way of a change.
 */
export function inspectType(state: TypeState, target: Snapshot | undefined): TypeInspection {
  const wanted = target?.byType[state.typeUrl] ?? new Map<string, Resource>();
  const names = new Set([...state.subscribedNames, ...state.namesInUse()]);
  for (const name of wanted.keys()) if (state.isSubscribed(name)) names.add(name);
  return {
    typeUrl: state.typeUrl,
    version: target?.typeVersions[state.typeUrl] ?? "",
    resources: [...names].sort().map((name) => inspectResource(state, name, wanted)),
  };
}

function inspectResource(state: TypeState, name: string, wanted: ReadonlyMap<string, Resource>): ResourceInspection {
  const version = wanted.get(name)?.version ?? "";
  const underWay = state.outstanding?.items.find((item) => item.name === name);
  return {
    name,
    state: underWay === undefined ? restingState(state, name, version) : "under_way",
    version,
    ackedVersion: state.heldVersion(name) ?? "",
    underWayVersion: underWay?.version ?? "",
    resource: underWay?.resource ?? state.heldResource(name, wanted) ?? unsent(state, name, wanted),
    wanted: wanted.get(name),
  };
}

/** State of a resource of which nothing is under way. */
function restingState(state: TypeState, name: string, version: string): ResourceState {
  const held = state.heldVersion(name);
  if (version !== "") {
    if (state.isRejected(name, version)) return "refused";
    return held === version ? "acked" : "pending";
  }
  // What came with the wildcard leaves by a removal; what was asked for by name leaves when Envoy drops the name.
  if (held === undefined || state.subscribedNames.has(name)) return "absent";
  return state.isRejected(name, REMOVED) ? "refused" : "pending";
}

/** The content of today, unless the Envoy holds another one that we do not know. */
function unsent(state: TypeState, name: string, wanted: ReadonlyMap<string, Resource>): Resource | undefined {
  return state.heldVersion(name) === undefined ? wanted.get(name) : undefined;
}
