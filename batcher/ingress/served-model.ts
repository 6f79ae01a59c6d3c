import type { ServingSpec } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";

/** What this batcher serves right now. A new object replaces the old one; it is never changed in place. */
export interface ServedModel {
  readonly model: string;
  readonly version: bigint;
  readonly spec: ServingSpec;
  /** The model server answers and the version is loaded. */
  readonly ready: boolean;
  /** New work is refused, what is queued is finished. */
  readonly draining: boolean;
}

/** `ranker:41`, as it stands in `x-servemesh-served-by`. */
export function formatServed(served: ServedModel): string {
  return `${served.model}:${served.version}`;
}
