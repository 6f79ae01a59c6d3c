import { type ResourceType, WILDCARD_TYPES } from "../snapshot/resource-types.js";
import { type AskedNames, WILDCARD } from "./discovery-ask.js";

/** What one request changed. */
export interface SubscriptionChange {
  /** Names to be answered: new ones, and in delta also those that were asked for before. */
  readonly added: readonly string[];
  readonly dropped: readonly string[];
  readonly opensWildcard: boolean;
  readonly closesWildcard: boolean;
}

const UNCHANGED: SubscriptionChange = { added: [], dropped: [], opensWildcard: false, closesWildcard: false };

/**
 * The names that one stream asked for of one type, and whether it asked for all. An empty first request means all (only
 * for the types that Envoy asks for as a whole); once anything was named, an empty list means nothing.
 */
export class Subscription {
  readonly #typeUrl: ResourceType;
  readonly #names = new Set<string>();
  #isWildcard = false;
  #wasNamed = false;
  #isFresh = true;
  /** SotW repeats its list in each acknowledgement. */
  #lastList: readonly string[] | undefined;

  constructor(typeUrl: ResourceType) {
    this.#typeUrl = typeUrl;
  }

  /** Names that were asked for one by one. */
  get names(): ReadonlySet<string> {
    return this.#names;
  }

  get isWildcard(): boolean {
    return this.#isWildcard;
  }

  covers(name: string): boolean {
    return this.#isWildcard || this.#names.has(name);
  }

  apply(asked: AskedNames): SubscriptionChange {
    return asked.kind === "change" ? this.#change(asked.subscribe, asked.unsubscribe) : this.#replace(asked.names);
  }

  #change(subscribe: readonly string[], unsubscribe: readonly string[]): SubscriptionChange {
    if (!this.#isFresh && subscribe.length === 0 && unsubscribe.length === 0) return UNCHANGED;
    const isLegacyWildcard = this.#isFresh && subscribe.length === 0 && WILDCARD_TYPES.has(this.#typeUrl);
    this.#isFresh = false;
    // Delta keeps the wildcard of an empty first request when names are added to it.
    const opensWildcard = isLegacyWildcard || subscribe.includes(WILDCARD);
    if (opensWildcard) this.#isWildcard = true;
    const added = [...new Set(subscribe)].filter((name) => name !== WILDCARD);
    for (const name of added) this.#names.add(name);
    const closesWildcard = unsubscribe.includes(WILDCARD) && this.#isWildcard;
    if (closesWildcard) this.#isWildcard = false;
    // Names that are not held are passed over.
    const dropped = unsubscribe.filter((name) => name !== WILDCARD && this.#names.delete(name));
    return { added, dropped, opensWildcard, closesWildcard };
  }

  #replace(list: readonly string[]): SubscriptionChange {
    if (this.#lastList !== undefined && isEqual(list, this.#lastList)) return UNCHANGED;
    this.#lastList = list;
    if (list.length > 0) this.#wasNamed = true;
    const isLegacyWildcard = !this.#wasNamed && WILDCARD_TYPES.has(this.#typeUrl);
    const wantsAll = isLegacyWildcard || list.includes(WILDCARD);
    const wanted = new Set(list.filter((name) => name !== WILDCARD));
    const added = [...wanted].filter((name) => !this.#names.has(name));
    const dropped = [...this.#names].filter((name) => !wanted.has(name));
    for (const name of added) this.#names.add(name);
    for (const name of dropped) this.#names.delete(name);
    const opensWildcard = wantsAll && !this.#isWildcard;
    const closesWildcard = !wantsAll && this.#isWildcard;
    this.#isWildcard = wantsAll;
    return { added, dropped, opensWildcard, closesWildcard };
  }
}

function isEqual(a: readonly string[], b: readonly string[]): boolean {
  if (a === b) return true;
  return a.length === b.length && a.every((name, index) => name === b[index]);
}
