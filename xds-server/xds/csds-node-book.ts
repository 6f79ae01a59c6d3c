import type { Clock } from "../platform/clock.js";
import type { TypeInspection } from "./csds-inspection.js";

/** Node ids whose refusals are remembered; the one that was heard of longest ago leaves first. */
const NODES_MAX = 4_096;
/** Refusals that are remembered of one node; the count goes on. */
const NACKS_MAX = 20;
/** Names that are remembered of one refused response. */
const NAMES_MAX = 20;

/** An open discovery stream whose Envoy has named itself, as the views of people see it. */
export interface ObservedStream {
  readonly node: { readonly nodeId: string; readonly rejections: readonly Refused[] };
  status(): readonly { readonly typeUrl: string; readonly sentVersion: string; readonly ackedVersion: string }[];
  inspect(): TypeInspection[];
}

/** What a node refuses of the present state. */
export interface Refused {
  readonly typeUrl: string;
  readonly name: string;
  readonly words: string;
}

/** What the server tells of its streams. Calls must be cheap: they are made on the way of every change. */
export interface StreamObserver {
  began(stream: ObservedStream): void;
  ended(stream: ObservedStream): void;
  /** @param tookMs from the write to the answer */
  accepted(stream: ObservedStream, typeUrl: string, tookMs: number): void;
  refused(stream: ObservedStream, typeUrl: string, names: readonly string[], words: string): void;
}

/** Tells several observers, in this order. */
export function tellAll(...observers: readonly StreamObserver[]): StreamObserver {
  return {
    began: (stream) => {
      for (const observer of observers) observer.began(stream);
    },
    ended: (stream) => {
      for (const observer of observers) observer.ended(stream);
    },
    accepted: (stream, typeUrl, tookMs) => {
      for (const observer of observers) observer.accepted(stream, typeUrl, tookMs);
    },
    refused: (stream, typeUrl, names, words) => {
      for (const observer of observers) observer.refused(stream, typeUrl, names, words);
    },
  };
}

/** One refused response. */
export interface Nack {
  readonly typeUrl: string;
  /** Resources of the response, at most the first 20; Envoy does not say which of several it means. */
  readonly names: readonly string[];
  readonly words: string;
  /** Milliseconds since the Unix epoch. */
  readonly atMs: number;
}

/** One connected Envoy. */
export interface ObservedNode {
  readonly stream: ObservedStream;
  readonly nodeId: string;
  /** Milliseconds since the Unix epoch. */
  readonly connectedAtMs: number;
  /** Refused responses of this node id since the start, over all its streams. */
  readonly nackCount: number;
  /** The latest of them, newest first. */
  readonly nacks: readonly Nack[];
}

interface NackRecord {
  count: number;
  latest: Nack[];
}

/** Keeps for people who is connected since when, and who refused what when. */
export class NodeBook implements StreamObserver {
  readonly #clock: Pick<Clock, "wallMs">;
  readonly #connectedAtMs = new Map<ObservedStream, number>();
  readonly #nacks = new Map<string, NackRecord>();

  constructor(clock: Pick<Clock, "wallMs">) {
    this.#clock = clock;
  }

  began(stream: ObservedStream): void {
    this.#connectedAtMs.set(stream, this.#clock.wallMs());
  }

  ended(stream: ObservedStream): void {
    this.#connectedAtMs.delete(stream);
  }

  accepted(): void {
    // Only refusals are remembered here.
  }

  refused({ node }: ObservedStream, typeUrl: string, names: readonly string[], words: string): void {
    const record = this.#nacks.get(node.nodeId) ?? { count: 0, latest: [] };
    record.count += 1;
    record.latest.unshift({ typeUrl, names: names.slice(0, NAMES_MAX), words, atMs: this.#clock.wallMs() });
    record.latest.length = Math.min(record.latest.length, NACKS_MAX);
    // Put in anew, so that the first key is the one that was heard of longest ago.
    this.#nacks.delete(node.nodeId);
    this.#nacks.set(node.nodeId, record);
    const oldest = this.#nacks.keys().next().value;
    if (this.#nacks.size > NODES_MAX && oldest !== undefined) this.#nacks.delete(oldest);
  }

  /** One per open stream, sorted by node id, then by the time of connecting. */
  nodes(): ObservedNode[] {
    const nodes = [...this.#connectedAtMs].map(([stream, connectedAtMs]) => {
      const { nodeId } = stream.node;
      const record = this.#nacks.get(nodeId);
      return { stream, nodeId, connectedAtMs, nackCount: record?.count ?? 0, nacks: [...(record?.latest ?? [])] };
    });
    return nodes.sort((a, b) =>
      a.nodeId === b.nodeId ? a.connectedAtMs - b.connectedAtMs : a.nodeId < b.nodeId ? -1 : 1,
    );
  }
}
