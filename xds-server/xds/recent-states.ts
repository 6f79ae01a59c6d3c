import { type ResourceType, WILDCARD_TYPES } from "../snapshot/resource-types.js";
import type { ResourceMap, Snapshot } from "../snapshot/snapshot.js";

/** Versions of each type that are remembered. Resources that did not change are shared with the present state. */
const VERSIONS_MAX = 8;

/**
 * The states published last, by version. A SotW client that reconnects names the version that it holds; with the state
 * behind it, it can be brought up to date by what changed, in order, instead of being given everything at once.
 */
export class RecentStates {
  readonly #byType = new Map<string, Map<string, ResourceMap>>();

  remember({ byType, typeVersions }: Snapshot): void {
    // What is asked for by name is answered by name, whatever version the client tells.
    for (const type of WILDCARD_TYPES as ReadonlySet<ResourceType>) {
      const states = this.#byType.get(type) ?? new Map<string, ResourceMap>();
      this.#byType.set(type, states);
      // Put in anew, so that the first key is the one that was published longest ago.
      states.delete(typeVersions[type]);
      states.set(typeVersions[type], byType[type]);
      const oldest = states.keys().next().value;
      if (states.size > VERSIONS_MAX && oldest !== undefined) states.delete(oldest);
    }
  }

  recall(typeUrl: ResourceType, version: string): ResourceMap | undefined {
    return this.#byType.get(typeUrl)?.get(version);
  }
}
