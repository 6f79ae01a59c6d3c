import type { Resource } from "../snapshot/resource.js";
import type { ResourceType } from "../snapshot/resource-types.js";
import { encodeDeltaResponse, type ResourceForm } from "./delta-wire.js";
import type { Protocol } from "./discovery-ask.js";
import { encodeSotwResponse } from "./sotw-wire.js";

/** What a response says, before it has a nonce. */
export interface ResponseContent {
  readonly typeUrl: ResourceType;
  readonly systemVersion: string;
  readonly contents: readonly Resource[];
  /** Names that are gone; only delta can say so. */
  readonly removed: readonly string[];
  readonly form: ResourceForm;
}

/** A response as it is written. */
export interface NumberedResponse {
  /** Its nonce. */
  readonly number: number;
  readonly bytes: Buffer;
}

/** Different responses of one type and protocol that are remembered at a time: most streams are sent the same ones. */
const REMEMBERED_MAX = 4;

interface Remembered extends NumberedResponse {
  readonly content: ResponseContent;
}

/**
 * Gives streams that are sent the same content the same message: the nonce counts responses of the server, not of a
 * stream, so the whole message is encoded once and shared. On each stream nonces still only grow, so none comes twice.
 */
export class SharedResponses {
  readonly #identifier: string;
  readonly #remembered = new Map<string, Remembered[]>();
  #count = 0;

  /** @param identifier of this control plane, part of every response */
  constructor(identifier: string) {
    this.#identifier = identifier;
  }

  /** @param after the nonce that the stream was sent last, 0 before the first */
  compose(protocol: Protocol, content: ResponseContent, after: number): NumberedResponse {
    const key = `${protocol} ${content.typeUrl}`;
    const remembered = this.#remembered.get(key) ?? [];
    const same = remembered.find((known) => known.number > after && isSame(known.content, content));
    if (same !== undefined) return same;
    this.#count += 1;
    const fresh = { number: this.#count, content, bytes: this.#encode(protocol, content, String(this.#count)) };
    this.#remembered.set(key, [fresh, ...remembered.slice(0, REMEMBERED_MAX - 1)]);
    return fresh;
  }

  /** Forgets what was sent of the state before: nobody is going to be sent it again. */
  forget(): void {
    this.#remembered.clear();
  }

  #encode(protocol: Protocol, content: ResponseContent, nonce: string): Buffer {
    const { typeUrl, systemVersion, contents: resources, removed, form } = content;
    const identifier = this.#identifier;
    if (protocol === "sotw") {
      return encodeSotwResponse({ typeUrl, nonce, versionInfo: systemVersion, resources, form, identifier });
    }
    return encodeDeltaResponse({ typeUrl, nonce, systemVersion, resources, removed, form, identifier });
  }
}

/** Resources of equal content are the same object within a snapshot, so no bytes are compared. */
function isSame(a: ResponseContent, b: ResponseContent): boolean {
  return (
    a.form === b.form &&
    a.systemVersion === b.systemVersion &&
    areSame(a.contents, b.contents) &&
    areSame(a.removed, b.removed)
  );
}

function areSame<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((entry, index) => entry === b[index]);
}
