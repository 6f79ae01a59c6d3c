import type { Alias } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { LayeredMap } from "../platform/layered-map.js";
import type { ModelPlan } from "./mesh-plan.js";

/** Which models fall back on which versions, so that a change of a version reaches the plans that name it. */
export interface Dependents {
  /** Models by the version reference that they name, allowed or not. */
  readonly models: LayeredMap<ReadonlySet<string>>;
  /** Version references by the model that names them. */
  readonly fallbacks: LayeredMap<ReadonlySet<string>>;
}

export function noDependents(): Dependents {
  return { models: LayeredMap.over(new Map()), fallbacks: LayeredMap.over(new Map()) };
}

/** Fallbacks of a model's alias records, refused ones too, and of the policies in force. */
export function fallbacksOf(records: Iterable<Alias>, plan: ModelPlan | undefined): ReadonlySet<string> {
  const references = new Set<string>();
  for (const record of records) for (const reference of record.fallback) references.add(reference);
  for (const { policy } of plan?.aliases ?? []) {
    for (const reference of policy?.fallback ?? []) references.add(reference);
  }
  return references;
}

/** Takes over what models fall back on now. */
export function withFallbacks(
  before: Dependents,
  changes: Iterable<readonly [string, ReadonlySet<string>]>,
): Dependents {
  const models = new Map<string, Set<string>>();
  const draftOf = (reference: string): Set<string> => {
    const draft = models.get(reference) ?? new Set(before.models.get(reference));
    models.set(reference, draft);
    return draft;
  };
  const fallbacks: [string, ReadonlySet<string> | undefined][] = [];
  for (const [model, now] of changes) {
    const old = before.fallbacks.get(model) ?? NONE;
    if (old.size === now.size && [...now].every((reference) => old.has(reference))) continue;
    for (const reference of old) draftOf(reference).delete(model);
    for (const reference of now) draftOf(reference).add(model);
    fallbacks.push([model, now.size === 0 ? undefined : now]);
  }
  if (fallbacks.length === 0) return before;
  return {
    models: before.models.with(
      [...models].map(([reference, draft]) => [reference, draft.size === 0 ? undefined : draft]),
    ),
    fallbacks: before.fallbacks.with(fallbacks),
  };
}

const NONE: ReadonlySet<string> = new Set();
