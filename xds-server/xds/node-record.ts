import type { Finding } from "../registry/state.js";
import type { Resource } from "../snapshot/resource.js";
import type { ResourceMap } from "../snapshot/snapshot.js";

/** A version text that no content has: stands for "removed" where versions are compared. */
export const REMOVED = "";

/** What an Envoy refused, in its own words. */
export interface Rejection {
  readonly typeUrl: string;
  readonly name: string;
  /** Content hash, or REMOVED. */
  readonly version: string;
  readonly words: string;
}

/** The one that was accepted last, and the one that was sent last: an answer may be lost with its stream. */
const STATES_MAX = 2;

interface SentState {
  readonly version: string;
  readonly resources: ResourceMap;
}

/**
 * What is remembered of one Envoy beyond a stream: contents that it refused, and states that only it was sent. After a
 * reconnect it names the last accepted version, so without this memory it would be sent the refused one again.
 */
export class NodeRecord {
  readonly nodeId: string;
  readonly #rejections = new Map<string, Rejection>();
  #revision = 0;
  readonly #states = new Map<string, readonly SentState[]>();

  constructor(nodeId: string) {
    this.nodeId = nodeId;
  }

  /** Grows with every change of what is refused; all streams of the node share this record. */
  get revision(): number {
    return this.#revision;
  }

  /** A restarted Envoy may take today what it refused yesterday (a port was taken, a file was missing). */
  forgetRejections(): void {
    this.#rejections.clear();
    this.#revision += 1;
  }

  /** The same for one type that a client asks for on a stream of its own. @param names empty for all of the type */
  forgetRejectionsOf(typeUrl: string, names: readonly string[]): void {
    for (const name of names) this.accept(typeUrl, name);
    if (names.length === 0) this.keepOnly((rejection) => rejection.typeUrl !== typeUrl);
  }

  reject(typeUrl: string, name: string, version: string, words: string): void {
    this.#rejections.set(`${typeUrl} ${name}`, { typeUrl, name, version, words });
    this.#revision += 1;
  }

  accept(typeUrl: string, name: string): void {
    if (this.hasRejections && this.#rejections.delete(`${typeUrl} ${name}`)) this.#revision += 1;
  }

  isRejected(typeUrl: string, name: string, version: string): boolean {
    return this.hasRejections && this.#rejections.get(`${typeUrl} ${name}`)?.version === version;
  }

  /** Drops what nobody wants to send any more. */
  keepOnly(isCurrent: (rejection: Rejection) => boolean): void {
    for (const [key, rejection] of this.#rejections) {
      if (isCurrent(rejection)) continue;
      this.#rejections.delete(key);
      this.#revision += 1;
    }
  }

  /** Remembers a SotW state between two published ones: something in it waited, or had been refused. */
  rememberState(typeUrl: string, version: string, contents: readonly Resource[]): void {
    const resources = new Map(contents.map((resource) => [resource.name, resource]));
    const others = (this.#states.get(typeUrl) ?? []).filter((state) => state.version !== version);
    this.#states.set(typeUrl, [...others, { version, resources }].slice(-STATES_MAX));
  }

  /** The state was refused, so the Envoy will never name it. */
  forgetState(typeUrl: string, version: string): void {
    this.#keepStates(typeUrl, (state) => state.version !== version);
  }

  /** A state was accepted, so the Envoy will not name an older one any more. */
  forgetOlderStates(typeUrl: string, version: string): void {
    this.#keepStates(typeUrl, (state) => state.version === version);
  }

  #keepStates(typeUrl: string, isWanted: (state: SentState) => boolean): void {
    const states = this.#states.get(typeUrl)?.filter(isWanted) ?? [];
    if (states.length > 0) this.#states.set(typeUrl, states);
    else this.#states.delete(typeUrl);
  }

  recallState(typeUrl: string, version: string): ResourceMap | undefined {
    return this.#states.get(typeUrl)?.find((state) => state.version === version)?.resources;
  }

  get hasRejections(): boolean {
    return this.#rejections.size > 0;
  }

  get rejections(): readonly Rejection[] {
    return [...this.#rejections.values()];
  }

  findings(): Finding[] {
    return this.rejections.map(({ typeUrl, name, words }) => ({
      severity: "error",
      subject: name,
      message: `gateway ${this.nodeId} refuses this ${typeUrl.slice(typeUrl.lastIndexOf(".") + 1)} and keeps the one before; it says: ${words}`,
    }));
  }
}
