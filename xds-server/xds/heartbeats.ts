import type { ResourceType } from "../snapshot/resource-types.js";
import type { Item } from "./type-state.js";

/** Heartbeats within one limit: two may be lost or late. */
const BEATS_PER_TTL = 3;

interface Beat {
  readonly name: string;
  readonly ttlMs: number;
  /** When a response was written that the client has accepted since. */
  heardAtMs: number;
}

/**
 * When a client has to hear again of what it holds for a limited time (rule 33). It forgets by its own clock, so time counts
 * from when a response was written.
 */
export class Heartbeats {
  readonly #beats = new Map<ResourceType, Beat[]>();

  /** True while the client holds nothing for a limited time. */
  get isIdle(): boolean {
    return this.#beats.size === 0;
  }

  /** The client accepted a response. */
  accepted(type: ResourceType, items: readonly Item[], writtenAtMs: number): void {
    const names = new Set(items.map(({ name }) => name));
    const others = (this.#beats.get(type) ?? []).filter(({ name }) => !names.has(name));
    const limited = items.flatMap(({ name, resource }) =>
      resource?.expiry === undefined ? [] : [{ name, ttlMs: resource.expiry.ttlMs, heardAtMs: writtenAtMs }],
    );
    if (others.length + limited.length === 0) this.#beats.delete(type);
    else this.#beats.set(type, [...others, ...limited]);
  }

  /** What the client has to hear of now, and what it has forgotten by now. */
  due(type: ResourceType, nowMs: number): { readonly again: readonly string[]; readonly forgotten: readonly string[] } {
    const due = (this.#beats.get(type) ?? []).filter((beat) => dueAtMs(beat) <= nowMs);
    const isForgotten = ({ heardAtMs, ttlMs }: Beat): boolean => heardAtMs + ttlMs <= nowMs;
    return {
      again: due.filter((beat) => !isForgotten(beat)).map(({ name }) => name),
      forgotten: due.filter(isForgotten).map(({ name }) => name),
    };
  }

  /** Forgets a resource that the client is told of no more. */
  drop(type: ResourceType, name: string): void {
    const left = (this.#beats.get(type) ?? []).filter((beat) => beat.name !== name);
    if (left.length === 0) this.#beats.delete(type);
    else this.#beats.set(type, left);
  }

  /** When the next one is due, of types that take a response; undefined when none is. */
  nextDueMs(canTake: (type: ResourceType) => boolean): number | undefined {
    let next: number | undefined;
    for (const [type, beats] of this.#beats) {
      if (!canTake(type)) continue;
      for (const beat of beats) next = Math.min(next ?? Number.POSITIVE_INFINITY, dueAtMs(beat));
    }
    return next;
  }
}

function dueAtMs({ heardAtMs, ttlMs }: Beat): number {
  return heardAtMs + ttlMs / BEATS_PER_TTL;
}
