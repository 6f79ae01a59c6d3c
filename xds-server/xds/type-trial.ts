import type { ResourceType } from "../snapshot/resource-types.js";
import type { ResourceMap } from "../snapshot/snapshot.js";

/** How long one Envoy may take to accept what the others of its group wait for, in ms. */
export const TRIAL_MS = 2_000;

/** All resources of one type, with the version that they have together. */
export interface TypeContent {
  readonly resources: ResourceMap;
  readonly version: string;
}

/** Why a content went to nobody else. */
export interface TrialRefusal {
  readonly nodeId: string;
  readonly names: readonly string[];
  /** Envoy's. */
  readonly words: string;
}

interface Trial {
  /** Undefined when nobody tries any more: it was refused, and the one that did has left. */
  readonly nodeId: string | undefined;
  readonly untilMs: number;
  /** True when it began with an Envoy that had just started, which has nothing else to fall back on. */
  readonly isFresh: boolean;
  readonly refusal: TrialRefusal | undefined;
}

/**
 * One type of one group of Envoys, whose new contents one Envoy tries first:
 *
 *     publish ─▶ tried by one ─┬─ accepted, or silent for 2 s ─▶ released to all
 *                              └─ refused ─▶ all others keep the last good one, until the content changes
 *
 * A pure state machine: nodes, answers and time go in, and `contentFor` says who gets what.
 */
export class TypeTrial {
  readonly typeUrl: ResourceType;
  #released: TypeContent | undefined;
  #latest: TypeContent | undefined;
  #trial: Trial | undefined;

  constructor(typeUrl: ResourceType) {
    this.typeUrl = typeUrl;
  }

  /** True while not everybody may have the newest content. */
  get isHeldBack(): boolean {
    return this.#trial !== undefined;
  }

  /** The Envoy that tries the newest content. */
  get nodeId(): string | undefined {
    return this.#trial?.nodeId;
  }

  get refusal(): TrialRefusal | undefined {
    return this.#trial?.refusal;
  }

  /** When the newest content is released although nobody accepted it; undefined when no answer is awaited. */
  get deadlineMs(): number | undefined {
    return this.#trial === undefined || this.#trial.refusal !== undefined ? undefined : this.#trial.untilMs;
  }

  /** @param choose gives an Envoy that takes this type; undefined when there is none, and then nothing is tried */
  publish(content: TypeContent, choose: () => string | undefined, nowMs: number): void {
    const isSame = content.version === this.#latest?.version;
    const isGood = this.#released === undefined || content.version === this.#released.version;
    this.#latest = content;
    if (isGood) this.#release();
    else if (!isSame || this.#trial === undefined) this.#begin(choose(), nowMs, false);
  }

  contentFor(nodeId: string): TypeContent | undefined {
    return this.#trial === undefined || this.#trial.nodeId === nodeId ? this.#latest : this.#released;
  }

  accepted(nodeId: string): void {
    if (this.#trial?.nodeId === nodeId && this.#trial.refusal === undefined) this.#release();
  }

  refused(nodeId: string, names: readonly string[], words: string): void {
    const trial = this.#trial;
    if (trial?.nodeId !== nodeId) return;
    // One that runs keeps what it had before; one that has just started is better off with the last good content.
    this.#trial = { ...trial, nodeId: trial.isFresh ? undefined : nodeId, refusal: { nodeId, names, words } };
  }

  /** The Envoy's last stream ended. @param choose gives another one */
  left(nodeId: string, choose: () => string | undefined, nowMs: number): void {
    if (this.#trial?.nodeId !== nodeId) return;
    if (this.#trial.refusal === undefined) this.#begin(choose(), nowMs, false);
    else this.#trial = { ...this.#trial, nodeId: undefined };
  }

  /** An Envoy has just started: what another refused (a port was taken, a file was missing) it may take. */
  started(nodeId: string, nowMs: number): void {
    if (this.#trial?.refusal !== undefined) this.#begin(nodeId, nowMs, true);
  }

  /** Time has passed: an Envoy that hangs does not stop a rollback. */
  expire(nowMs: number): void {
    if (this.deadlineMs !== undefined && nowMs >= this.deadlineMs) this.#release();
  }

  #begin(nodeId: string | undefined, nowMs: number, isFresh: boolean): void {
    if (nodeId === undefined) this.#release();
    else this.#trial = { nodeId, untilMs: nowMs + TRIAL_MS, isFresh, refusal: undefined };
  }

  #release(): void {
    this.#released = this.#latest;
    this.#trial = undefined;
  }
}
