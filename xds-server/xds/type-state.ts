import type { DeltaDiscoveryRequest } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { emptyRouteTable, type Resource } from "../snapshot/resource.js";
import {
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  WILDCARD_TYPES,
} from "../snapshot/resource-types.js";
import type { ResourceMap } from "../snapshot/snapshot.js";
import { type NodeRecord, REMOVED } from "./node-record.js";
import { refusalWords } from "./refusal-words.js";

/** Names that one stream may hold of one type. */
export const NAMES_MAX = 100_000;
const WILDCARD = "*";

/** What Envoy holds under one name, as far as we know. */
interface Held {
  readonly version: string;
  /** Undefined when only a version is known, from a stream before this one. */
  readonly resource: Resource | undefined;
}

/** One entry of a response: a resource, or a name that is gone. */
export interface Item {
  readonly name: string;
  /** Content hash, or REMOVED. */
  readonly version: string;
  readonly resource: Resource | undefined;
}

interface Outstanding {
  readonly nonce: string;
  readonly items: readonly Item[];
  /** Version by name, of the same items. */
  readonly versions: ReadonlyMap<string, string>;
  readonly sentAtMs: number;
}

/** What a request said about the last response. */
export type Verdict =
  | { readonly kind: "none" }
  | { readonly kind: "ack"; readonly tookMs: number }
  | { readonly kind: "nack"; readonly words: string; readonly items: readonly Item[] };

/**
 * Subscription of one type on one delta stream: what Envoy asked for, holds and has been sent. Keeps the protocol's rules
 * (wildcard, nonces, one response under way, refused contents stay refused) and no order between types.
 */
export class TypeState {
  readonly typeUrl: ResourceType;
  readonly #node: NodeRecord;
  #isFirstRequest = true;
  #isWildcard = false;
  /** The first wildcard request wants an answer even if there is nothing, or Envoy's start waits for it. */
  #owesAnswer = false;
  readonly #names = new Set<string>();
  readonly #held = new Map<string, Held>();
  /** Names that Envoy asked for and that must be answered, whatever it holds. */
  readonly #asked = new Set<string>();
  /** Names to be sent again if they exist: endpoints of a changed cluster or after a reconnect. */
  readonly #resend = new Set<string>();
  /** `name version` of entries that stood in a refused response with others: each gets a response of its own. */
  readonly #suspects = new Set<string>();
  #outstanding: Outstanding | undefined;

  constructor(typeUrl: ResourceType, node: NodeRecord) {
    this.typeUrl = typeUrl;
    this.#node = node;
  }

  get outstanding(): Outstanding | undefined {
    return this.#outstanding;
  }

  get owesAnswer(): boolean {
    return this.#owesAnswer;
  }

  get nameCount(): number {
    return this.#names.size;
  }

  isSubscribed(name: string): boolean {
    return this.#isWildcard || this.#names.has(name);
  }

  /** Applies a request: first its verdict on the last response, then its change of the subscription. */
  apply(request: DeltaDiscoveryRequest, nowMs: number): Verdict {
    const isFirst = this.#isFirstRequest;
    this.#isFirstRequest = false;
    // The nonce of a first request belongs to a stream that is gone.
    const verdict: Verdict = isFirst ? { kind: "none" } : this.#settle(request, nowMs);
    if (isFirst) this.#start(request);
    this.#subscribe(request.resourceNamesSubscribe, isFirst);
    this.#unsubscribe(request.resourceNamesUnsubscribe);
    return verdict;
  }

  #start(request: DeltaDiscoveryRequest): void {
    for (const [name, version] of Object.entries(request.initialResourceVersions)) {
      this.#held.set(name, { version, resource: undefined });
    }
    if (request.resourceNamesSubscribe.length === 0 && WILDCARD_TYPES.has(this.typeUrl)) this.#openWildcard();
  }

  #openWildcard(): void {
    this.#isWildcard = true;
    this.#owesAnswer = true;
  }

  #settle(request: DeltaDiscoveryRequest, nowMs: number): Verdict {
    const outstanding = this.#outstanding;
    // Stale or foreign: no credit, but the names in the request still count.
    if (outstanding === undefined || request.responseNonce !== outstanding.nonce) return { kind: "none" };
    this.#outstanding = undefined;
    // A refusal is told by its error alone; versions and nonces do not tell it.
    if (request.errorDetail !== undefined) {
      const words = refusalWords(request.errorDetail.message);
      this.#refuse(outstanding.items, words);
      return { kind: "nack", words, items: outstanding.items };
    }
    for (const { name, version, resource } of outstanding.items) {
      this.#node.accept(this.typeUrl, name);
      this.#suspects.delete(`${name} ${version}`);
      // Dropped while the answer was under way: what Envoy does with it is not our concern any more.
      if (version === REMOVED || !this.isSubscribed(name)) this.#held.delete(name);
      else this.#held.set(name, { version, resource });
    }
    return { kind: "ack", tookMs: nowMs - outstanding.sentAtMs };
  }

  /** One refused entry is remembered; of several nobody knows which, so each is offered once more on its own. */
  #refuse(items: readonly Item[], words: string): void {
    const [only, ...others] = items;
    if (only === undefined) return;
    if (others.length === 0) {
      this.#suspects.delete(`${only.name} ${only.version}`);
      this.#node.reject(this.typeUrl, only.name, only.version, words);
      return;
    }
    for (const { name, version } of items) this.#suspects.add(`${name} ${version}`);
  }

  #subscribe(names: readonly string[], isFirst: boolean): void {
    for (const name of names) {
      if (name === WILDCARD) {
        this.#openWildcard();
        continue;
      }
      this.#names.add(name);
      // On a new stream Envoy lists what it has; only endpoints are sent again, because a cluster may wait for them.
      if (!isFirst || !this.#held.has(name)) this.#asked.add(name);
      else if (this.typeUrl === ENDPOINT_TYPE) this.#resend.add(name);
    }
  }

  #unsubscribe(names: readonly string[]): void {
    for (const name of names) {
      if (name === WILDCARD) {
        this.#isWildcard = false;
        for (const held of this.#held.keys()) if (!this.#names.has(held)) this.#held.delete(held);
        continue;
      }
      if (!this.#names.delete(name)) continue;
      this.#asked.delete(name);
      this.#resend.delete(name);
      // Still covered by the wildcard: the protocol wants to hear about it once more.
      if (this.#isWildcard) this.#asked.add(name);
      else this.#held.delete(name);
    }
  }

  /** Sends a name again although it is held already; without effect when it does not exist or nobody asked for it. */
  sendAgain(name: string): void {
    if (this.isSubscribed(name)) this.#resend.add(name);
  }

  /** What should be sent to reach `target`, without what is under way or known to be refused. Sorted by name. */
  pending(target: ResourceMap): Item[] {
    const names = new Set(this.#names);
    if (this.#isWildcard) {
      for (const name of target.keys()) names.add(name);
      for (const name of this.#held.keys()) names.add(name);
    }
    const items: Item[] = [];
    for (const name of names) {
      const item = this.#pendingItem(name, target);
      if (item !== undefined && !this.isUnderWay(item.name, item.version)) items.push(item);
    }
    return items.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  #pendingItem(name: string, target: ResourceMap): Item | undefined {
    const held = this.#held.get(name);
    const isAsked = this.#asked.has(name);
    const resource = target.get(name) ?? this.#standIn(name, isAsked || held === undefined);
    if (resource === undefined) return this.#pendingRemoval(name, held, isAsked);
    const item = { name, version: resource.version, resource };
    if (isAsked || this.#resend.has(name)) return item;
    const isWanted = held?.version !== resource.version && !this.#node.isRejected(this.typeUrl, name, resource.version);
    return isWanted ? item : undefined;
  }

  #pendingRemoval(name: string, held: Held | undefined, isAsked: boolean): Item | undefined {
    // A listener that waits for a filter never opens once it is told that there is none; silence lets its timer run.
    if (this.typeUrl === EXTENSION_TYPE) return undefined;
    const item = { name, version: REMOVED, resource: undefined };
    if (isAsked) return item;
    // Endpoints, route tables and filters leave with what names them; Envoy ignores their removal.
    const isOurs = this.#isWildcard && !this.#names.has(name) && held !== undefined;
    return isOurs && !this.#node.isRejected(this.typeUrl, name, REMOVED) ? item : undefined;
  }

  /** See emptyRouteTable: a route table that never was must not be answered with "removed". */
  #standIn(name: string, mustAnswer: boolean): Resource | undefined {
    return this.typeUrl === ROUTE_TYPE && mustAnswer ? emptyRouteTable(name) : undefined;
  }

  isUnderWay(name: string, version: string): boolean {
    return this.#outstanding?.versions.get(name) === version;
  }

  /** True when Envoy holds a version and nothing that is under way will change it. */
  isHeldForGood(name: string, version: string): boolean {
    const underWay = this.#outstanding?.versions.get(name);
    return this.#held.get(name)?.version === version && (underWay === undefined || underWay === version);
  }

  isSuspect(item: Item): boolean {
    return this.#suspects.has(`${item.name} ${item.version}`);
  }

  isRejected(name: string, version: string): boolean {
    return this.#node.isRejected(this.typeUrl, name, version);
  }

  heldVersion(name: string): string | undefined {
    return this.#held.get(name)?.version;
  }

  /** Content that Envoy holds; undefined when it holds nothing or when its content is not known. */
  heldResource(name: string, target: ResourceMap): Resource | undefined {
    const held = this.#held.get(name);
    if (held === undefined) return undefined;
    const today = target.get(name);
    return held.resource ?? (today?.version === held.version ? today : undefined);
  }

  /** Names that Envoy asked for and holds, or will hold when it has read what is under way. */
  namesInUse(): string[] {
    const names = new Set([...this.#held.keys(), ...(this.#outstanding?.versions.keys() ?? [])]);
    return [...names].filter((name) => this.isSubscribed(name));
  }

  /**
   * What Envoy holds under a name, or has under way, other than a version. Undefined stands for content that is not
   * known, from a stream before this one.
   */
  otherContents(name: string, version: string | undefined, target: ResourceMap): (Resource | undefined)[] {
    const contents: (Resource | undefined)[] = [];
    const held = this.#held.get(name);
    if (held !== undefined && held.version !== version) contents.push(this.heldResource(name, target));
    const underWay = this.#outstanding?.items.find((item) => item.name === name);
    if (underWay?.resource !== undefined && underWay.version !== version) contents.push(underWay.resource);
    return contents;
  }

  /** Records a response as written. Stored before the bytes leave, so that an instant answer is never stale. */
  sent(nonce: string, items: readonly Item[], nowMs: number): void {
    this.#owesAnswer = false;
    for (const { name } of items) {
      this.#asked.delete(name);
      this.#resend.delete(name);
    }
    const versions = new Map(items.map((item) => [item.name, item.version]));
    this.#outstanding = { nonce, items, versions, sentAtMs: nowMs };
  }
}
