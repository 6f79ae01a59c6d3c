import type { Finding } from "../registry/state.js";

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

/**
 * What is remembered of one Envoy beyond a stream: contents that it refused. After a reconnect it names the last accepted
 * version, so without this memory it would be sent the refused one again.
 */
export class NodeRecord {
  readonly nodeId: string;
  readonly #rejections = new Map<string, Rejection>();

  constructor(nodeId: string) {
    this.nodeId = nodeId;
  }

  /** A restarted Envoy may take today what it refused yesterday (a port was taken, a file was missing). */
  forgetRejections(): void {
    this.#rejections.clear();
  }

  reject(typeUrl: string, name: string, version: string, words: string): void {
    this.#rejections.set(`${typeUrl} ${name}`, { typeUrl, name, version, words });
  }

  accept(typeUrl: string, name: string): void {
    this.#rejections.delete(`${typeUrl} ${name}`);
  }

  isRejected(typeUrl: string, name: string, version: string): boolean {
    return this.#rejections.get(`${typeUrl} ${name}`)?.version === version;
  }

  /** Drops what nobody wants to send any more. */
  keepOnly(isCurrent: (rejection: Rejection) => boolean): void {
    for (const [key, rejection] of this.#rejections) if (!isCurrent(rejection)) this.#rejections.delete(key);
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
