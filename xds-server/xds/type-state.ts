import { ClusterLoadAssignment } from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/endpoint.js";
import { absentHost, contentHash, emptyRouteTable, endpointResource, type Resource } from "../snapshot/resource.js";
import {
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  VIRTUAL_HOST_TYPE,
  WILDCARD_TYPES,
} from "../snapshot/resource-types.js";
import type { ResourceMap } from "../snapshot/snapshot.js";
import { type DiscoveryAsk, namesIn, type Protocol } from "./discovery-ask.js";
import { type NodeRecord, REMOVED } from "./node-record.js";
import { PendingNames } from "./pending-names.js";
import { refusalWords } from "./refusal-words.js";
import { Subscription, type SubscriptionChange } from "./subscription.js";

/** Names that one stream may hold of one type. */
export const NAMES_MAX = 100_000;
/** Version of what a SotW client holds from an earlier stream: some content, nobody knows which. No hash looks like it. */
const UNKNOWN = "?";

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
  /** True for an empty resource that stands for one that does not exist. */
  readonly isStandIn?: boolean;
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
  | { readonly kind: "ack"; readonly tookMs: number; readonly items: readonly Item[] }
  | { readonly kind: "nack"; readonly words: string; readonly items: readonly Item[] };

/**
 * One type on one stream: what Envoy asked for, holds and has been sent. Keeps the protocol's rules (nonces, one response
 * under way, refused contents stay refused) and no order between types.
 *
 * SotW differs from delta in one thing only: clusters, listeners and scopes travel as full state, where absent means
 * deleted. So a response carries what stays as well (`contents`), and while nobody knows what the client holds from
 * earlier streams (`isWhole`) it has to be all of the target at once.
 */
export class TypeState {
  readonly typeUrl: ResourceType;
  /** True when a response replaces everything that the client holds of this type. */
  readonly isFullState: boolean;
  #leavesWithParent = false;
  readonly #protocol: Protocol;
  readonly #node: NodeRecord;
  readonly #subscription: Subscription;
  #isFirstRequest = true;
  /** The first wildcard request wants an answer even if there is nothing, or Envoy's start waits for it. */
  #owesAnswer = false;
  readonly #held = new Map<string, Held>();
  /** Names that Envoy asked for and that must be answered, whatever it holds. */
  readonly #asked = new Set<string>();
  /** Names to be sent again if they exist: endpoints of a changed cluster or after a reconnect. */
  readonly #resend = new Set<string>();
  /** Names of which the client knows that there is nothing. */
  readonly #gone = new Set<string>();
  /** `name version` of entries that stood in a refused response with others: each gets a response of its own. */
  readonly #suspects = new Set<string>();
  readonly #pendingNames = new PendingNames<Item>();
  #outstanding: Outstanding | undefined;
  #isWhole = false;
  /** Version of the type that a SotW client with the wildcard says it holds, until it was looked up. */
  #claim: string | undefined;
  /** Hash of a whole state that was refused: not offered again until anything in it changes. */
  #parkedState: string | undefined;

  constructor(typeUrl: ResourceType, node: NodeRecord, protocol: Protocol) {
    this.typeUrl = typeUrl;
    this.#node = node;
    this.#protocol = protocol;
    this.#subscription = new Subscription(typeUrl);
    this.isFullState = protocol === "sotw" && WILDCARD_TYPES.has(typeUrl);
  }

  /**
   * True while the type that names these resources travels on the same stream: they leave with what names them, and the
   * client then drops the name itself. Envoy ignores a removal before that, so it would only look as if it was gone.
   */
  get leavesWithParent(): boolean {
    return this.#leavesWithParent;
  }

  set leavesWithParent(leaves: boolean) {
    if (leaves !== this.#leavesWithParent) this.#pendingNames.touchAll();
    this.#leavesWithParent = leaves;
  }

  get outstanding(): Outstanding | undefined {
    return this.#outstanding;
  }

  get owesAnswer(): boolean {
    return this.#owesAnswer;
  }

  /** True while a response must hold all of the target, because what it leaves out would be deleted unseen. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  get nameCount(): number {
    return this.#subscription.names.size;
  }

  /** Names that Envoy asked for one by one. */
  get subscribedNames(): ReadonlySet<string> {
    return this.#subscription.names;
  }

  isSubscribed(name: string): boolean {
    return this.#subscription.covers(name);
  }

  /** Applies a request: first its verdict on the last response, then its change of the subscription. */
  apply(ask: DiscoveryAsk, nowMs: number): Verdict {
    const isFirst = this.#isFirstRequest;
    this.#isFirstRequest = false;
    // The nonce of a first request belongs to a stream that is gone.
    const verdict: Verdict = isFirst ? { kind: "none" } : this.#settle(ask, nowMs);
    if (isFirst) this.#start(ask);
    const change = this.#subscription.apply(ask.names);
    if (isFirst && change.added.length > 0) this.#claim = undefined;
    this.#follow(change, isFirst);
    return verdict;
  }

  /**
   * Finds out what a SotW client holds from the version that it names. Call before anything is sent.
   * @param recall resources of a version that was published lately
   */
  settleClaim(recall: (version: string) => ResourceMap | undefined): void {
    const known = this.#claim === undefined ? undefined : recall(this.#claim);
    this.#claim = undefined;
    if (known === undefined) return;
    for (const [name, resource] of known) this.#held.set(name, { version: resource.version, resource });
    this.#pendingNames.touchAll();
    this.#isWhole = false;
    // Nothing new to say and no start to complete.
    this.#owesAnswer = false;
  }

  #start(ask: DiscoveryAsk): void {
    if (ask.holds.kind === "resources") {
      for (const [name, version] of Object.entries(ask.holds.versions)) {
        this.#held.set(name, { version, resource: undefined });
      }
      return;
    }
    if (ask.holds.version === "") return;
    if (this.isFullState) {
      this.#claim = ask.holds.version;
      this.#isWhole = true;
      this.#owesAnswer = true;
    } else {
      for (const name of namesIn(ask)) this.#held.set(name, { version: UNKNOWN, resource: undefined });
    }
  }

  #settle(ask: DiscoveryAsk, nowMs: number): Verdict {
    const outstanding = this.#outstanding;
    // Stale or foreign: no credit, but the names in the request still count.
    if (outstanding === undefined || ask.responseNonce !== outstanding.nonce) return { kind: "none" };
    this.#outstanding = undefined;
    // A refusal is told by its error alone; versions and nonces do not tell it.
    if (ask.refusal !== undefined) {
      const words = refusalWords(ask.refusal);
      this.#refuse(outstanding.items, words);
      return { kind: "nack", words, items: outstanding.items };
    }
    for (const { name, version, resource, isStandIn } of outstanding.items) {
      this.#node.accept(this.typeUrl, name);
      if (this.#suspects.size > 0) this.#suspects.delete(`${name} ${version}`);
      if ((version === REMOVED || isStandIn) && this.isSubscribed(name)) this.#gone.add(name);
      // Dropped while the answer was under way: what Envoy does with it is not our concern any more.
      if (version === REMOVED || !this.isSubscribed(name)) this.#held.delete(name);
      else this.#held.set(name, { version, resource });
      this.#pendingNames.touch(name);
    }
    if (this.#isWhole) this.#pendingNames.touchAll();
    this.#isWhole = false;
    this.#parkedState = undefined;
    return { kind: "ack", tookMs: nowMs - outstanding.sentAtMs, items: outstanding.items };
  }

  /** One refused entry is remembered; of several nobody knows which, so each is offered once more on its own. */
  #refuse(items: readonly Item[], words: string): void {
    const [only, ...others] = items;
    if (only === undefined) return;
    if (this.#isWhole) {
      // Offered on its own, a resource would delete all others: the state is parked as it is.
      this.#parkedState = stateHash(items);
      for (const { name, version } of items) this.#node.reject(this.typeUrl, name, version, words);
      return;
    }
    if (others.length === 0) {
      this.#suspects.delete(`${only.name} ${only.version}`);
      this.#node.reject(this.typeUrl, only.name, only.version, words);
      return;
    }
    for (const { name, version } of items) this.#suspects.add(`${name} ${version}`);
  }

  /** Envoy opens its list of virtual hosts without a name, and does not open its port before the answer (rule 28). */
  #beginsEmptyList({ added, opensWildcard }: SubscriptionChange): boolean {
    return this.typeUrl === VIRTUAL_HOST_TYPE && added.length === 0 && !opensWildcard;
  }

  #follow(change: SubscriptionChange, isFirst: boolean): void {
    if (change.opensWildcard || (isFirst && this.#beginsEmptyList(change))) this.#owesAnswer = true;
    if (change.opensWildcard || change.closesWildcard) this.#pendingNames.touchAll();
    for (const name of [...change.added, ...change.dropped]) this.#pendingNames.touch(name);
    for (const name of change.added) {
      // On a new stream Envoy lists what it has; only endpoints are sent again, because a cluster may wait for them.
      if (!isFirst || !this.#held.has(name)) this.#asked.add(name);
      else if (this.typeUrl === ENDPOINT_TYPE) this.#resend.add(name);
    }
    if (change.closesWildcard) {
      for (const held of this.#held.keys()) if (!this.isSubscribed(held)) this.#held.delete(held);
      for (const asked of this.#asked) if (!this.isSubscribed(asked)) this.#asked.delete(asked);
    }
    for (const name of change.dropped) {
      this.#asked.delete(name);
      this.#resend.delete(name);
      this.#gone.delete(name);
      if (!this.isSubscribed(name)) this.#held.delete(name);
      // Still covered by the wildcard: delta wants to hear about it once more.
      else if (this.#protocol === "delta") this.#asked.add(name);
    }
  }

  /** Sends a name again although it is held already; without effect when it does not exist or nobody asked for it. */
  sendAgain(name: string): void {
    if (!this.isSubscribed(name)) return;
    this.#resend.add(name);
    this.#pendingNames.touch(name);
  }

  /** What should be sent to reach `target`, without what is under way or known to be refused. Sorted by name. */
  pending(target: ResourceMap): readonly Item[] {
    const items = this.#isWhole ? this.#wholeState(target) : this.#changes(target);
    if (items.length === 0) return items;
    const [only] = items;
    if (items.length === 1 && only !== undefined) return this.isUnderWay(only.name, only.version) ? [] : items;
    return items.filter((item) => !this.isUnderWay(item.name, item.version)).sort(byName);
  }

  /** Looks only at names to which something has happened, so that one change costs the same on any stream. */
  #changes(target: ResourceMap): readonly Item[] {
    const names = this.#pendingNames.toLookAt(target, this.#node.revision) ?? this.#everyName(target);
    for (const name of names) {
      this.#pendingNames.note(name, this.#concerns(name, target) ? this.#pendingItem(name, target) : undefined);
    }
    return this.#pendingNames.items();
  }

  /** The same as `pending` by looking at every name; tests compare the two. */
  pendingOfEveryName(target: ResourceMap): Item[] {
    const items = this.#isWhole
      ? this.#wholeState(target)
      : [...this.#everyName(target)].flatMap((name) => this.#pendingItem(name, target) ?? []);
    return items.filter((item) => !this.isUnderWay(item.name, item.version)).sort(byName);
  }

  #everyName(target: ResourceMap): Set<string> {
    const names = new Set(this.#subscription.names);
    if (this.#subscription.isWildcard) {
      for (const name of target.keys()) names.add(name);
      for (const name of this.#held.keys()) names.add(name);
      for (const name of this.#asked) names.add(name);
    }
    return names;
  }

  #concerns(name: string, target: ResourceMap): boolean {
    if (this.#subscription.names.has(name)) return true;
    return this.#subscription.isWildcard && (target.has(name) || this.#held.has(name) || this.#asked.has(name));
  }

  #wholeState(target: ResourceMap): Item[] {
    const items: Item[] = [];
    for (const [name, resource] of target) {
      if (this.isSubscribed(name)) items.push({ name, version: resource.version, resource });
    }
    return this.#parkedState !== undefined && stateHash(items) === this.#parkedState ? [] : items;
  }

  /** Resources of a response with these items: of a full state also what Envoy holds and keeps. Sorted by name. */
  contents(items: readonly Item[]): readonly Resource[] {
    if (!this.isFullState) return items.flatMap(({ resource }) => (resource === undefined ? [] : [resource]));
    const contents = new Map<string, Resource>();
    for (const [name, { resource }] of this.#held) if (resource !== undefined) contents.set(name, resource);
    for (const { name, resource } of items) {
      if (resource === undefined) contents.delete(name);
      else contents.set(name, resource);
    }
    return [...contents.values()].sort(byName);
  }

  #pendingItem(name: string, target: ResourceMap): Item | undefined {
    const held = this.#held.get(name);
    const isAsked = this.#asked.has(name);
    const mustAnswer = isAsked || (held === undefined && !this.#gone.has(name));
    const real = target.get(name);
    const resource = real ?? this.#standIn(name, mustAnswer);
    if (resource === undefined) return this.#pendingRemoval(name, held, isAsked);
    const item = { name, version: resource.version, resource, isStandIn: real === undefined };
    if (isAsked || this.#resend.has(name)) return item;
    const isWanted = held?.version !== resource.version && !this.#node.isRejected(this.typeUrl, name, resource.version);
    return isWanted ? item : undefined;
  }

  #pendingRemoval(name: string, held: Held | undefined, isAsked: boolean): Item | undefined {
    // A listener that waits for a filter never opens once it is told that there is none; silence lets its timer run.
    if (this.typeUrl === EXTENSION_TYPE) return undefined;
    const item = { name, version: REMOVED, resource: undefined };
    if (this.#protocol === "sotw")
      return this.isFullState && held !== undefined ? this.#unlessRejected(item) : undefined;
    if (isAsked) return item;
    if (this.#gone.has(name)) return undefined;
    const leavesAlone = !this.leavesWithParent || !this.#subscription.names.has(name);
    return held !== undefined && leavesAlone ? this.#unlessRejected(item) : undefined;
  }

  #unlessRejected(item: Item): Item | undefined {
    return this.#node.isRejected(this.typeUrl, item.name, item.version) ? undefined : item;
  }

  /**
   * What is sent in place of nothing, so that a starting Envoy goes on: see emptyRouteTable and absentHost; and in state of the
   * world, which cannot say "removed", no endpoints for a cluster that was deleted while Envoy warms it. A delta client that asks
   * for route tables alone has no listener that waits for one, and is told the truth.
   */
  #standIn(name: string, mustAnswer: boolean): Resource | undefined {
    if (!mustAnswer || name === "") return undefined;
    const isSotw = this.#protocol === "sotw";
    if (this.typeUrl === VIRTUAL_HOST_TYPE) return isSotw ? undefined : absentHost(name);
    if (this.typeUrl === ROUTE_TYPE && (isSotw || this.leavesWithParent)) return emptyRouteTable(name);
    const isWarming = this.typeUrl === ENDPOINT_TYPE && isSotw && this.leavesWithParent;
    return isWarming ? endpointResource(ClusterLoadAssignment.fromPartial({ clusterName: name })) : undefined;
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
    return this.#suspects.size > 0 && this.#suspects.has(`${item.name} ${item.version}`);
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

  /** What Envoy holds under a name, if that is what it shall hold and nothing is under way that changes it. */
  heldItem(name: string, target: ResourceMap): Item | undefined {
    const resource = target.get(name);
    if (resource === undefined || !this.isSubscribed(name)) return undefined;
    const { version } = resource;
    return this.isHeldForGood(name, version) && !this.isRejected(name, version)
      ? { name, version, resource }
      : undefined;
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
      this.#gone.delete(name);
      this.#pendingNames.touch(name);
    }
    const versions = new Map(items.map((item) => [item.name, item.version]));
    this.#outstanding = { nonce, items, versions, sentAtMs: nowMs };
  }
}

function byName(a: { readonly name: string }, b: { readonly name: string }): number {
  return a.name < b.name ? -1 : 1;
}

/** The same for the same names with the same contents. */
function stateHash(items: readonly Item[]): string {
  return contentHash(
    [...items]
      .sort(byName)
      .map(({ name, version }) => `${name} ${version}\n`)
      .join(""),
  );
}
