/** How long one response took since the change of the registry that it belongs to. */
export interface PushTimes {
  /** Change to written. */
  readonly toWireMs: number;
  /** Change to accepted by the Envoy. */
  readonly toAckMs: number;
}

/** Publications that are remembered; ACKs come within milliseconds, so a few would do. */
const PUBLICATIONS_MAX = 64;
/** Later responses are no answer to a change any more; the longest wait of a resource for another is 3 s. */
const BELONGS_MAX_MS = 10_000;

interface Publication {
  readonly changedAtMs: number;
  readonly fromMs: number;
}

/**
 * Joins changes of the registry with the answers of Envoys. A response belongs to the last publication before it, if it was
 * written within 10 s and its stream was open at that time: what an Envoy is sent because it connects is no push.
 */
export class PushLatency {
  readonly #nowMs: () => number;
  readonly #observe: (typeUrl: string, times: PushTimes) => void;
  readonly #beganAtMs = new Map<object, number>();
  readonly #publications: Publication[] = [];
  #changedAtMs: number | undefined;

  /** @param nowMs a monotonic clock */
  constructor(nowMs: () => number, observe: (typeUrl: string, times: PushTimes) => void) {
    this.#nowMs = nowMs;
    this.#observe = observe;
  }

  /** The registry changed. Of several changes before one publication the first counts. */
  changed(): void {
    this.#changedAtMs ??= this.#nowMs();
  }

  /** The state is about to be published. Call it before the first response of it is written. */
  publishing(): void {
    if (this.#changedAtMs === undefined) return;
    this.#publications.push({ changedAtMs: this.#changedAtMs, fromMs: this.#nowMs() });
    this.#changedAtMs = undefined;
    if (this.#publications.length > PUBLICATIONS_MAX) this.#publications.shift();
  }

  began(stream: object): void {
    this.#beganAtMs.set(stream, this.#nowMs());
  }

  ended(stream: object): void {
    this.#beganAtMs.delete(stream);
  }

  /** @param tookMs from the write to the answer */
  accepted(stream: object, typeUrl: string, tookMs: number): void {
    const nowMs = this.#nowMs();
    const sentAtMs = nowMs - tookMs;
    const publication = this.#publications.findLast(({ fromMs }) => fromMs <= sentAtMs);
    if (publication === undefined || sentAtMs - publication.fromMs > BELONGS_MAX_MS) return;
    const beganAtMs = this.#beganAtMs.get(stream);
    if (beganAtMs === undefined || beganAtMs > publication.fromMs) return;
    const { changedAtMs } = publication;
    this.#observe(typeUrl, { toWireMs: sentAtMs - changedAtMs, toAckMs: nowMs - changedAtMs });
  }

  refused(): void {
    // A refusal brings nobody to the new state.
  }
}
