import { changesBetween, LayeredMap } from "../platform/layered-map.js";
import type { Finding } from "../registry/state.js";
import { contentHash, type Resource } from "../snapshot/resource.js";
import { DELIVERY_ORDER, EXTENSION_TYPE, LISTENER_TYPE, type ResourceType } from "../snapshot/resource-types.js";
import type { ResourceMap, Snapshot } from "../snapshot/snapshot.js";
import { RecentStates } from "./recent-states.js";
import { TypeTrial } from "./type-trial.js";

/** Types with which one bad resource takes an Envoy down as a whole. All other types go to everybody at once. */
const TRIED_TYPES = [LISTENER_TYPE, EXTENSION_TYPE] as const;

/** Gives the Envoy of the group that is to try a type first; undefined when none takes it. */
export type Choose = (typeUrl: ResourceType) => string | undefined;

/**
 * Who of one group of Envoys gets which state. Listeners and the gate's configuration go to one Envoy first. While the
 * others keep theirs, nothing is taken from them that these may still lead to.
 */
export class GroupDelivery {
  readonly name: string;
  readonly #trials = TRIED_TYPES.map((type) => new TypeTrial(type));
  readonly #choose: Choose;
  /** What everybody had when a type began to be held back. */
  #base: Snapshot | undefined;
  #latest: Snapshot | undefined;
  /** States made for the present trials, by what they hold back. */
  readonly #mixed = new Map<string, Snapshot>();
  readonly #recent = new RecentStates();
  #revision = 0;

  constructor(name: string, choose: Choose) {
    this.name = name;
    this.#choose = choose;
  }

  get latest(): Snapshot | undefined {
    return this.#latest;
  }

  /** Grows when somebody's target may have changed. */
  get revision(): number {
    return this.#revision;
  }

  /** Resources of a type at a version that the group was given lately. */
  recall(typeUrl: ResourceType, version: string): ResourceMap | undefined {
    return this.#recent.recall(typeUrl, version);
  }

  /** When `expire` is to be called; undefined when nobody is waited for. */
  get deadlineMs(): number | undefined {
    const deadlines = this.#trials.flatMap(({ deadlineMs }) => deadlineMs ?? []);
    return deadlines.length === 0 ? undefined : Math.min(...deadlines);
  }

  /** Types that an Envoy tries for the others, and that it has not refused. */
  triedBy(nodeId: string): ResourceType[] {
    return this.#trials
      .filter((trial) => trial.nodeId === nodeId && trial.refusal === undefined)
      .map(({ typeUrl }) => typeUrl);
  }

  /** Whether an Envoy tries something for the others, or was the one that refused it. */
  involves(nodeId: string): boolean {
    return this.#trials.some((trial) => trial.nodeId === nodeId);
  }

  publish(snapshot: Snapshot, nowMs: number): void {
    if (!this.#isHeldBack) this.#base = this.#latest;
    this.#latest = snapshot;
    this.#recent.remember(snapshot);
    for (const trial of this.#trials) {
      const { typeUrl } = trial;
      const content = { resources: snapshot.byType[typeUrl], version: snapshot.typeVersions[typeUrl] };
      trial.publish(content, () => this.#choose(typeUrl), nowMs);
    }
    this.#changed();
  }

  /** The state that an Envoy is to reach now. */
  targetFor(nodeId: string): Snapshot | undefined {
    const { latest } = this;
    if (latest === undefined) return undefined;
    const held = this.#trials.filter((trial) => trial.isHeldBack && trial.nodeId !== nodeId);
    if (held.length === 0) return latest;
    const key = held.map(({ typeUrl }) => typeUrl).join(" ");
    const known = this.#mixed.get(key);
    if (known !== undefined) return known;
    const mixed = this.#mix(latest, held, nodeId);
    this.#mixed.set(key, mixed);
    this.#recent.remember(mixed);
    return mixed;
  }

  /** The Envoy that tries a type for the others accepted it. */
  accepted(nodeId: string, typeUrl: ResourceType): void {
    this.#trialOf(typeUrl)?.accepted(nodeId);
    this.#changed();
  }

  /** An Envoy refused a response; of concern only when it tries the type for the others. */
  refused(nodeId: string, typeUrl: string, names: readonly string[], words: string): void {
    const trial = this.#trialOf(typeUrl);
    if (trial?.nodeId !== nodeId) return;
    trial.refused(nodeId, names, words);
    this.#changed();
  }

  /** An Envoy that holds nothing yet came. */
  started(nodeId: string, nowMs: number): void {
    const retried = this.#trials.filter(({ refusal }) => refusal !== undefined);
    for (const trial of retried) trial.started(nodeId, nowMs);
    if (retried.length > 0) this.#changed();
  }

  left(nodeId: string, nowMs: number): void {
    const left = this.#trials.filter((trial) => trial.nodeId === nodeId);
    for (const trial of left) trial.left(nodeId, () => this.#choose(trial.typeUrl), nowMs);
    if (left.length > 0) this.#changed();
  }

  expire(nowMs: number): void {
    for (const trial of this.#trials) trial.expire(nowMs);
    this.#changed();
  }

  /** What one Envoy refused, so that the others do not get it. */
  findings(): Finding[] {
    return this.#trials.flatMap(({ typeUrl, refusal }) => {
      if (refusal === undefined) return [];
      const kind = typeUrl.slice(typeUrl.lastIndexOf(".") + 1);
      return refusal.names.map((name) => ({
        severity: "error" as const,
        subject: name,
        message: `was given to no other gateway of "${this.name}", because ${refusal.nodeId} refused this ${kind}; it says: ${refusal.words}`,
      }));
    });
  }

  #changed(): void {
    this.#mixed.clear();
    this.#revision += 1;
  }

  get #isHeldBack(): boolean {
    return this.#trials.some(({ isHeldBack }) => isHeldBack);
  }

  #trialOf(typeUrl: string): TypeTrial | undefined {
    return this.#trials.find((trial) => trial.typeUrl === typeUrl);
  }

  #mix(latest: Snapshot, held: readonly TypeTrial[], nodeId: string): Snapshot {
    const byType = { ...latest.byType };
    const typeVersions = { ...latest.typeVersions };
    for (const type of DELIVERY_ORDER) {
      const trial = held.find(({ typeUrl }) => typeUrl === type);
      if (trial !== undefined) {
        const content = trial.contentFor(nodeId);
        byType[type] = content?.resources ?? latest.byType[type];
        typeVersions[type] = content?.version ?? latest.typeVersions[type];
      } else if (this.#base !== undefined && !TRIED_TYPES.some((tried) => tried === type)) {
        const gone = goneSince(this.#base.byType[type], latest.byType[type]);
        if (gone.length === 0) continue;
        byType[type] = LayeredMap.over(latest.byType[type]).with(gone);
        const names = gone.map(([name, { version }]) => `${name} ${version}\n`).sort();
        typeVersions[type] = contentHash(`${latest.typeVersions[type]}\n${names.join("")}`);
      }
    }
    return { byType, typeVersions, duplicates: [] };
  }
}

function goneSince(before: ResourceMap, now: ResourceMap): (readonly [string, Resource])[] {
  return changesBetween(before, now).flatMap(({ key, before, after }) =>
    before !== undefined && after === undefined ? [[key, before] as const] : [],
  );
}
