import { EXTENSION_TYPE, type ResourceType } from "../snapshot/resource-types.js";
import type { Passage } from "./delivery-gates.js";

/** Longest wait of one type for another, in ms. Afterwards the entry goes anyway: a stuck Envoy must not stop a rollback. */
const PATIENCE_MS = 3_000;
/** The gate's configuration also revokes keys, which must be dead within 2 s. */
const GATE_PATIENCE_MS = 1_000;

/** Remembers since when entries wait, and lets them pass when they waited long enough. */
export class Patience {
  readonly #waitingSinceMs = new Map<string, number>();
  readonly #onExpired: (typeUrl: ResourceType) => void;

  /** @param onExpired called once for each entry that passes without what it waited for */
  constructor(onExpired: (typeUrl: ResourceType) => void) {
    this.#onExpired = onExpired;
  }

  /** True when the entry may be sent. */
  allows(type: ResourceType, name: string, passage: Passage, nowMs: number): boolean {
    if (passage !== "wait" && !this.hasWaits) return passage === "go";
    const key = `${type} ${name}`;
    if (passage !== "wait") {
      this.#waitingSinceMs.delete(key);
      return passage === "go";
    }
    const since = this.#waitingSinceMs.get(key) ?? nowMs;
    this.#waitingSinceMs.set(key, since);
    return nowMs - since >= patienceOf(type);
  }

  /** The entry was sent. */
  passed(type: ResourceType, name: string, nowMs: number): void {
    if (!this.hasWaits) return;
    const key = `${type} ${name}`;
    const since = this.#waitingSinceMs.get(key);
    if (since !== undefined && nowMs - since >= patienceOf(type)) this.#onExpired(type);
    this.#waitingSinceMs.delete(key);
  }

  /** True while an entry waits. */
  get hasWaits(): boolean {
    return this.#waitingSinceMs.size > 0;
  }

  /** Forgets entries that nobody wants to send any more, so that a later wait starts at zero. */
  keepOnly(isPending: (type: ResourceType, name: string) => boolean): void {
    for (const key of this.#waitingSinceMs.keys()) {
      const at = key.indexOf(" ");
      if (!isPending(key.slice(0, at) as ResourceType, key.slice(at + 1))) this.#waitingSinceMs.delete(key);
    }
  }

  /**
   * When the next one will have waited long enough; undefined when nobody waits. Those who have are not counted: they go
   * with the next event, and a timer for them would spin while Envoy owes an answer.
   */
  nextDeadlineMs(nowMs: number): number | undefined {
    let next: number | undefined;
    for (const [key, since] of this.#waitingSinceMs) {
      const deadline = since + patienceOf(key.slice(0, key.indexOf(" ")) as ResourceType);
      if (deadline > nowMs && (next === undefined || deadline < next)) next = deadline;
    }
    return next;
  }
}

function patienceOf(type: ResourceType): number {
  return type === EXTENSION_TYPE ? GATE_PATIENCE_MS : PATIENCE_MS;
}
