import type { DeltaDiscoveryRequest } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import {
  CLUSTER_TYPE,
  DELIVERY_ORDER,
  ENDPOINT_TYPE,
  isResourceType,
  type ResourceType,
} from "../snapshot/resource-types.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import { passageOf } from "./delivery-gates.js";
import { type NodeRecord, REMOVED } from "./node-record.js";
import { Patience } from "./patience.js";
import { type Item, NAMES_MAX, TypeState, type Verdict } from "./type-state.js";

/** One response to be written, in Envoy-independent form. */
export interface Outgoing {
  readonly typeUrl: ResourceType;
  readonly nonce: string;
  readonly systemVersion: string;
  readonly items: readonly Item[];
}

/** What happens on a stream, for metrics and logs. */
export interface SessionEvents {
  write(outgoing: Outgoing): void;
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

interface Progress {
  sentVersion: string;
  ackedVersion: string;
}

/**
 * One delta ADS stream as a state machine: requests, snapshots and time go in, responses come out through `write`. No
 * clock and no connection of its own. Each call ends with everything sent that may be sent; at most one response per type
 * is under way, and what changes meanwhile is merged into the next.
 */
export class DeltaSession {
  readonly node: NodeRecord;
  readonly #events: SessionEvents;
  readonly #states = new Map<ResourceType, TypeState>();
  readonly #progress = new Map<ResourceType, Progress>();
  readonly #patience: Patience;
  #target: Snapshot | undefined;
  #isResumed = false;
  #sentCount = 0;

  constructor(node: NodeRecord, events: SessionEvents) {
    this.node = node;
    this.#events = events;
    this.#patience = new Patience((type) => events.waitExpired(type));
  }

  /**
   * Handles one request. Types that we do not serve are passed over in silence.
   * @throws Error when the request asks for more names than one stream may hold
   */
  request(request: DeltaDiscoveryRequest, nowMs: number): void {
    if (!isResourceType(request.typeUrl)) return;
    let state = this.#states.get(request.typeUrl);
    if (state === undefined) {
      if (this.#states.size === 0) this.#isResumed = Object.keys(request.initialResourceVersions).length > 0;
      state = new TypeState(request.typeUrl, this.node);
      this.#states.set(request.typeUrl, state);
      this.#progress.set(request.typeUrl, { sentVersion: "", ackedVersion: "" });
    }
    if (state.nameCount + request.resourceNamesSubscribe.length > NAMES_MAX) {
      throw new Error(`more than ${NAMES_MAX} names of ${request.typeUrl} on one stream; ask for fewer`);
    }
    this.#tell(state.typeUrl, state.apply(request, nowMs));
    this.advance(nowMs);
  }

  /** A newer state to bring this Envoy to. */
  setTarget(target: Snapshot, nowMs: number): void {
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
    for (const type of DELIVERY_ORDER) {
      const state = this.#states.get(type);
      if (state !== undefined && state.outstanding === undefined) this.#sendNext(state, target, nowMs);
    }
    this.#takeStock(target);
  }

  /** When `advance` has to be called even if nothing happens; undefined when nothing waits. */
  wakeAtMs(nowMs: number): number | undefined {
    return this.#patience.nextDeadlineMs(nowMs);
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

  #sendNext(state: TypeState, target: Snapshot, nowMs: number): void {
    const type = state.typeUrl;
    const pending = state.pending(target.byType[type]);
    const allowed = pending.filter((item) =>
      this.#patience.allows(
        type,
        item.name,
        passageOf(type, item, { states: this.#states, target, isResumed: this.#isResumed }),
        nowMs,
      ),
    );
    // The first answer completes the start of a fresh Envoy, so it is given whole.
    if (state.owesAnswer && !this.#isResumed && allowed.length < pending.length) return;
    const items = nextBatch(state, allowed);
    if (items.length === 0 && !state.owesAnswer) return;
    this.#send(state, items, target, nowMs);
  }

  #send(state: TypeState, items: readonly Item[], target: Snapshot, nowMs: number): void {
    const type = state.typeUrl;
    this.#sentCount += 1;
    const nonce = String(this.#sentCount);
    state.sent(nonce, items, nowMs);
    for (const item of items) this.#patience.passed(type, item.name, nowMs);
    // Envoy warms a changed cluster until its endpoints come again, and asks for nothing that it has subscribed already.
    if (type === CLUSTER_TYPE) {
      const endpoints = this.#states.get(ENDPOINT_TYPE);
      for (const { resource } of items) for (const name of resource?.needs ?? []) endpoints?.sendAgain(name);
    }
    this.#events.write({ typeUrl: type, nonce, systemVersion: target.typeVersions[type], items });
  }

  /** Notes how far each type is, and forgets waits for entries that are not wanted any more. */
  #takeStock(target: Snapshot): void {
    const waiting = new Map<ResourceType, Set<string>>();
    for (const [type, state] of this.#states) {
      const pending = state.pending(target.byType[type]);
      waiting.set(type, new Set(pending.map((item) => item.name)));
      if (pending.length === 0) this.#noteProgress(state, target);
    }
    this.#patience.keepOnly((type, name) => waiting.get(type)?.has(name) ?? false);
  }

  #noteProgress(state: TypeState, target: Snapshot): void {
    const type = state.typeUrl;
    const progress = this.#progress.get(type);
    if (progress === undefined) return;
    progress.sentVersion = target.typeVersions[type];
    const resources = [...target.byType[type].values()];
    const isRefused = resources.some((resource) => state.isRejected(resource.name, resource.version));
    if (state.outstanding === undefined && !isRefused) progress.ackedVersion = target.typeVersions[type];
  }

  #tell(type: ResourceType, verdict: Verdict): void {
    if (verdict.kind === "ack") this.#events.accepted(type, verdict.tookMs);
    if (verdict.kind === "nack") this.#events.refused(type, verdict.items, verdict.words);
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
