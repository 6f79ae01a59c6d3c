import { contentHash, type Resource } from "../snapshot/resource.js";
import {
  CLUSTER_TYPE,
  DELIVERY_ORDER,
  ENDPOINT_TYPE,
  isResourceType,
  LISTENER_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  SCOPE_TYPE,
  SECRET_TYPE,
} from "../snapshot/resource-types.js";
import type { ResourceMap, Snapshot } from "../snapshot/snapshot.js";
import { inspectType, type TypeInspection } from "./csds-inspection.js";
import { goneByState, type Passage, passageOf, type StreamView } from "./delivery-gates.js";
import type { ResourceForm } from "./delta-wire.js";
import { type DiscoveryAsk, holdsNothing, type Protocol } from "./discovery-ask.js";
import { Heartbeats } from "./heartbeats.js";
import { type NodeRecord, REMOVED } from "./node-record.js";
import { Patience } from "./patience.js";
import type { NumberedResponse, ResponseContent } from "./shared-responses.js";
import { type Item, NAMES_MAX, TypeState, type Verdict } from "./type-state.js";

/** One response to be written. */
export interface Outgoing {
  readonly typeUrl: ResourceType;
  readonly nonce: string;
  /** Version of the type, or of what the response holds when that is not all of a full state. */
  readonly systemVersion: string;
  /** What changes for the client. */
  readonly items: readonly Item[];
  /** Resources of the response: those of `items`, and in a full state also what stays as it is. */
  readonly contents: readonly Resource[];
  /** The encoded message, shared with other streams. */
  readonly bytes: Buffer;
}

/** What kind of stream a session serves. */
export interface SessionSettings {
  readonly protocol: Protocol;
  /**
   * True for a stream of a per-type service. Other types travel on streams of their own, whose state this session does
   * not know, so nothing waits for another type: order between types is what ADS is for.
   */
  readonly isAlone: boolean;
  /** True for a client that knows of resources with a limit of time. */
  readonly knowsLimits: boolean;
  /** Resources of a type at a version that was published lately; undefined when it is not known any more. */
  recall(typeUrl: ResourceType, version: string): ResourceMap | undefined;
  /** The message of a response, with a nonce above the last one of the stream. */
  compose(content: ResponseContent, after: number): NumberedResponse;
}

/** What happens on a stream, for metrics and logs. */
export interface SessionEvents {
  write(outgoing: Outgoing): void;
  /** False while the stream takes nothing more, until `resume` is called. Absent means that it always does. */
  canWrite?(): boolean;
  accepted(typeUrl: ResourceType, tookMs: number): void;
  refused(typeUrl: ResourceType, items: readonly Item[], words: string): void;
  /** Something was sent although what it waits for was not accepted in time. */
  waitExpired(typeUrl: ResourceType): void;
}

export interface SessionTypeStatus {
  readonly typeUrl: ResourceType;
  /** Version of the type when all of it had been sent; empty before. */
  readonly sentVersion: string;
  /** Version of the type when all of it was accepted; empty before. */
  readonly ackedVersion: string;
}

/** Types whose resources are named by resources of other types. */
const PARENTS: readonly (readonly [ResourceType, readonly ResourceType[]])[] = [
  [ENDPOINT_TYPE, [CLUSTER_TYPE]],
  [SECRET_TYPE, [LISTENER_TYPE, CLUSTER_TYPE]],
  [ROUTE_TYPE, [SCOPE_TYPE, LISTENER_TYPE]],
];

interface Progress {
  sentVersion: string;
  ackedVersion: string;
}

/**
 * One discovery stream of either protocol as a state machine: requests, snapshots and time go in, responses come out through `write`. No
 * clock and no connection of its own. Each call ends with everything sent that may be sent; at most one response per type
 * is under way, and what changes meanwhile is merged into the next.
 */
export class StreamSession {
  readonly node: NodeRecord;
  readonly #events: SessionEvents;
  readonly #settings: SessionSettings;
  readonly #states = new Map<ResourceType, TypeState>();
  readonly #progress = new Map<ResourceType, Progress>();
  readonly #patience: Patience;
  readonly #heartbeats = new Heartbeats();
  readonly #lastVersions = new Map<ResourceType, string>();
  #target: Snapshot | undefined;
  #isResumed = false;
  #lastNonce = 0;
  /** Types to which something happened since all that may be sent was sent. */
  readonly #touched = new Set<ResourceType>();
  #nodeRevision = -1;

  constructor(node: NodeRecord, settings: SessionSettings, events: SessionEvents) {
    this.node = node;
    this.#settings = settings;
    this.#events = events;
    this.#patience = new Patience((type) => events.waitExpired(type));
  }

  /**
   * Handles one request. Types that we do not serve are passed over in silence.
   * @throws Error when the request asks for more names than one stream may hold
   */
  request(ask: DiscoveryAsk, nowMs: number): void {
    const { typeUrl } = ask;
    if (!isResourceType(typeUrl)) return;
    let state = this.#states.get(typeUrl);
    if (state === undefined) {
      // Clusters that are still cold were never accepted, so the first request alone does not tell.
      if (!holdsNothing(ask)) this.#isResumed = true;
      state = new TypeState(typeUrl, this.node, this.#settings.protocol);
      this.#states.set(typeUrl, state);
      this.#progress.set(typeUrl, { sentVersion: "", ackedVersion: "" });
      this.#meetParents();
      this.#touchAll();
    }
    this.#touched.add(typeUrl);
    // SotW lists all names each time, delta only what is new.
    const { names } = ask;
    const nameCount = names.kind === "change" ? state.nameCount + names.subscribe.length : names.names.length;
    if (nameCount > NAMES_MAX) {
      throw new Error(`more than ${NAMES_MAX} names of ${typeUrl} on one stream; ask for fewer`);
    }
    this.#tell(typeUrl, state.apply(ask, nowMs), nowMs);
    this.advance(nowMs);
  }

  /** A newer state to bring this Envoy to. */
  setTarget(target: Snapshot, nowMs: number): void {
    for (const type of DELIVERY_ORDER) {
      if (target.byType[type] !== this.#target?.byType[type]) this.#touched.add(type);
    }
    this.#target = target;
    this.node.keepOnly(({ typeUrl, name, version }) => {
      if (!isResourceType(typeUrl)) return false;
      const wanted = target.byType[typeUrl].get(name);
      return version === REMOVED ? wanted === undefined : wanted?.version === version;
    });
    this.advance(nowMs);
  }

  /** Sends what may be sent now. Call again at `wakeAtMs`. */
  advance(nowMs: number): void {
    const target = this.#target;
    // Nothing is sent before the first complete state: half of one would delete the other half from Envoy.
    if (target === undefined) return;
    // What waits, or is held back, may go when anything happens to any type.
    if (this.#patience.hasWaits || this.node.hasRejections || this.node.revision !== this.#nodeRevision) {
      this.#touchAll();
    }
    this.#askForForgotten(nowMs);
    for (const type of DELIVERY_ORDER) {
      const state = this.#touched.has(type) ? this.#states.get(type) : undefined;
      if (state === undefined) continue;
      // What happened to a type is kept until it may be sent, as what it has become by then.
      if (this.#events.canWrite?.() === false) return;
      state.settleClaim((version) => this.#recall(type, version));
      const leftCount =
        state.outstanding === undefined
          ? this.#sendNext(state, target, nowMs)
          : state.pending(target.byType[type]).length;
      if (leftCount === 0) this.#noteProgress(state, target);
    }
    this.#sendHeartbeats(target, nowMs);
    this.#forgetWaits(target);
    this.#touched.clear();
    this.#nodeRevision = this.node.revision;
  }

  /** The stream takes more again. */
  resume(nowMs: number): void {
    this.#touchAll();
    this.advance(nowMs);
  }

  #touchAll(): void {
    for (const type of DELIVERY_ORDER) this.#touched.add(type);
  }

  /** When `advance` has to be called even if nothing happens; undefined when nothing waits. */
  wakeAtMs(nowMs: number): number | undefined {
    const waitMs = this.#patience.nextDeadlineMs(nowMs);
    // While a response is under way or the stream is full, what ends that calls us.
    const isOpen = this.#target !== undefined && this.#events.canWrite?.() !== false;
    const takes = (type: ResourceType): boolean => this.#states.get(type)?.outstanding === undefined;
    const beatMs = isOpen ? this.#heartbeats.nextDueMs(takes) : undefined;
    return waitMs === undefined || beatMs === undefined ? (waitMs ?? beatMs) : Math.min(waitMs, beatMs);
  }

  /** Whether Envoy asked for a type here, and took (or refused) all that is wanted of it. */
  progressOf(typeUrl: ResourceType): "unasked" | "open" | "taken" {
    const state = this.#states.get(typeUrl);
    if (state === undefined) return "unasked";
    return this.#target !== undefined && isSettled(state, this.#target) ? "taken" : "open";
  }

  /** Types that Envoy has not taken completely (what it refused counts as taken). */
  unsettledTypes(): ResourceType[] {
    const target = this.#target;
    if (target === undefined) return [...this.#states.keys()];
    return [...this.#states.values()].filter((state) => !isSettled(state, target)).map((state) => state.typeUrl);
  }

  status(): SessionTypeStatus[] {
    return [...this.#progress].map(([typeUrl, progress]) => ({ typeUrl, ...progress }));
  }

  /** Every resource that this Envoy asked for, in delivery order of the types. For people; see `inspectType`. */
  inspect(): TypeInspection[] {
    return DELIVERY_ORDER.flatMap((type) => {
      const state = this.#states.get(type);
      return state === undefined ? [] : [inspectType(state, this.#target)];
    });
  }

  /** For tests: types of which other names are taken for pending than a look at every name finds. */
  misjudgedTypes(): ResourceType[] {
    const target = this.#target;
    if (target === undefined) return [];
    const texts = (items: readonly Item[]) => items.map(({ name, version }) => `${name} ${version}`).join();
    return [...this.#states.values()]
      .filter((state) => {
        const wanted = target.byType[state.typeUrl];
        return texts(state.pending(wanted)) !== texts(state.pendingOfEveryName(wanted));
      })
      .map((state) => state.typeUrl);
  }

  #meetParents(): void {
    for (const [type, parents] of PARENTS) {
      const state = this.#states.get(type);
      if (state !== undefined) state.leavesWithParent = parents.some((parent) => this.#states.has(parent));
    }
  }

  /** @returns how much of what is pending could not be sent yet */
  #sendNext(state: TypeState, target: Snapshot, nowMs: number): number {
    const type = state.typeUrl;
    const pending = state.pending(target.byType[type]);
    if (pending.length === 0 && !state.owesAnswer) return 0;
    const view = this.#view(target);
    const passage = (item: Item): Passage => (this.#settings.isAlone ? "go" : passageOf(type, item, view));
    const allowed = pending.filter((item) => this.#patience.allows(type, item.name, passage(item), nowMs));
    const gone = this.#settings.isAlone ? [] : goneByState(type, view);
    if (gone.filter((name) => !this.#patience.allows(type, name, "wait", nowMs)).length > 0) return pending.length + 1;
    // The first answer completes the start of a fresh Envoy, so it is given whole.
    const isAllOrNothing = state.isWhole || (state.owesAnswer && !this.#isResumed);
    if (isAllOrNothing && allowed.length < pending.length) return pending.length;
    const items = state.isWhole ? allowed : nextBatch(state, allowed);
    if (items.length > 0 || state.owesAnswer) this.#send(state, items, target, nowMs);
    return pending.length - items.length;
  }

  /** What has run out at the client, because we were late, is sent once more as a whole. */
  #askForForgotten(nowMs: number): void {
    if (this.#heartbeats.isIdle) return;
    for (const [type, state] of this.#states) {
      for (const name of this.#heartbeats.due(type, nowMs).forgotten) {
        this.#heartbeats.drop(type, name);
        state.sendAgain(name);
        this.#touched.add(type);
      }
    }
  }

  #sendHeartbeats(target: Snapshot, nowMs: number): void {
    if (this.#heartbeats.isIdle) return;
    for (const [type, state] of this.#states) {
      if (state.outstanding !== undefined || this.#events.canWrite?.() === false) continue;
      const items = this.#heartbeats.due(type, nowMs).again.flatMap((name) => {
        const item = state.heldItem(name, target.byType[type]);
        // It changed, went or was dropped; what is sent of it next begins anew.
        if (item?.resource?.expiry === undefined) this.#heartbeats.drop(type, name);
        return item?.resource?.expiry === undefined ? [] : [item];
      });
      // Envoy's state of the world passes over a resource without content, and lets it run out.
      const form = this.#settings.protocol === "delta" ? "heartbeat" : "limited";
      if (items.length > 0) this.#send(state, items, target, nowMs, form);
    }
  }

  #view(target: Snapshot): StreamView {
    return { states: this.#states, target, isResumed: this.#isResumed, hasRefused: this.node.hasRejections };
  }

  #send(
    state: TypeState,
    items: readonly Item[],
    target: Snapshot,
    nowMs: number,
    form: ResourceForm = this.#settings.knowsLimits ? "limited" : "plain",
  ): void {
    const type = state.typeUrl;
    const contents = state.contents(items);
    const systemVersion = versionOf(state, contents, target);
    const removed = items.filter(({ version }) => version === REMOVED).map(({ name }) => name);
    const content = { typeUrl: type, systemVersion, contents, removed, form };
    const { number, bytes } = this.#settings.compose(content, this.#lastNonce);
    this.#lastNonce = number;
    const nonce = String(number);
    state.sent(nonce, items, nowMs);
    for (const item of items) this.#patience.passed(type, item.name, nowMs);
    // Envoy warms a changed cluster until its endpoints come again, and asks for nothing that it has subscribed already.
    if (type === CLUSTER_TYPE) {
      const endpoints = this.#states.get(ENDPOINT_TYPE);
      for (const { resource } of items) for (const name of resource?.needs ?? []) endpoints?.sendAgain(name);
      this.#touched.add(ENDPOINT_TYPE);
    }
    if (state.isFullState && systemVersion !== target.typeVersions[type]) {
      this.node.rememberState(type, systemVersion, contents);
    }
    this.#lastVersions.set(type, systemVersion);
    this.#events.write({ typeUrl: type, nonce, systemVersion, items, contents, bytes });
  }

  #recall(type: ResourceType, version: string): ResourceMap | undefined {
    return this.node.recallState(type, version) ?? this.#settings.recall(type, version);
  }

  /** Forgets waits for entries that are not wanted any more. */
  #forgetWaits(target: Snapshot): void {
    if (!this.#patience.hasWaits) return;
    const waiting = new Map<ResourceType, ReadonlySet<string>>();
    const view = this.#view(target);
    for (const [type, state] of this.#states) {
      const names = state.pending(target.byType[type]).map((item) => item.name);
      waiting.set(type, new Set([...names, ...goneByState(type, view)]));
    }
    this.#patience.keepOnly((type, name) => waiting.get(type)?.has(name) ?? false);
  }

  /** All of the type was sent. */
  #noteProgress(state: TypeState, target: Snapshot): void {
    const type = state.typeUrl;
    const progress = this.#progress.get(type);
    if (progress === undefined) return;
    progress.sentVersion = target.typeVersions[type];
    const wanted = target.byType[type];
    const isRefused =
      this.node.hasRejections &&
      this.node.rejections.some(
        ({ typeUrl, name, version }) => typeUrl === type && wanted.get(name)?.version === version,
      );
    if (state.outstanding === undefined && !isRefused) progress.ackedVersion = target.typeVersions[type];
  }

  #tell(type: ResourceType, verdict: Verdict, nowMs: number): void {
    const version = this.#lastVersions.get(type) ?? "";
    if (verdict.kind === "ack") {
      if (this.#settings.knowsLimits) this.#heartbeats.accepted(type, verdict.items, nowMs - verdict.tookMs);
      this.node.forgetOlderStates(type, version);
      this.#events.accepted(type, verdict.tookMs);
    }
    if (verdict.kind === "nack") {
      this.node.forgetState(type, version);
      this.#events.refused(type, verdict.items, verdict.words);
    }
  }
}

/** All that is not under suspicion together; a suspect only on its own, so that it cannot spoil others. */
function nextBatch(state: TypeState, allowed: readonly Item[]): readonly Item[] {
  const trusted = allowed.filter((item) => !state.isSuspect(item));
  return trusted.length > 0 ? trusted : allowed.slice(0, 1);
}

function isSettled(state: TypeState, target: Snapshot): boolean {
  return (
    state.outstanding === undefined && !state.owesAnswer && state.pending(target.byType[state.typeUrl]).length === 0
  );
}

/**
 * The version that a response carries. A SotW client names it after a reconnect, and the whole type must then be what the
 * version says: a full state that is not there yet (something waits, or was refused) gets a version of its own.
 */
function versionOf(state: TypeState, contents: readonly Resource[], target: Snapshot): string {
  const version = target.typeVersions[state.typeUrl];
  if (!state.isFullState) return version;
  const wanted = target.byType[state.typeUrl];
  let wantedCount = 0;
  for (const name of wanted.keys()) if (state.isSubscribed(name)) wantedCount += 1;
  const isThere = contents.every((resource) => wanted.get(resource.name)?.version === resource.version);
  if (isThere && contents.length === wantedCount) return version;
  return contentHash(contents.map((resource) => `${resource.name} ${resource.version}\n`).join(""));
}
