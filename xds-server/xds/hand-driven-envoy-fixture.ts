import {
  type DeepPartial,
  DeltaDiscoveryRequest,
} from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import {
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  LISTENER_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  RUNTIME_TYPE,
  SCOPE_TYPE,
  SECRET_TYPE,
  VIRTUAL_HOST_TYPE,
} from "../snapshot/resource-types.js";
import { deltaAsk } from "./discovery-ask.js";
import { NodeRecord, REMOVED } from "./node-record.js";
import { type Outgoing, type SessionSettings, StreamSession } from "./stream-session.js";

/** Names of the types as people say them. */
export const SHORT: Readonly<Record<ResourceType, string>> = {
  [CLUSTER_TYPE]: "CDS",
  [ENDPOINT_TYPE]: "EDS",
  [SECRET_TYPE]: "SDS",
  [LISTENER_TYPE]: "LDS",
  [SCOPE_TYPE]: "SRDS",
  [ROUTE_TYPE]: "RDS",
  [VIRTUAL_HOST_TYPE]: "VHDS",
  [EXTENSION_TYPE]: "ECDS",
  [RUNTIME_TYPE]: "RTDS",
};

/** Composes no message: the nonce counts the responses of the stream. */
export const COUNTING: SessionSettings["compose"] = (_, after) => ({ number: after + 1, bytes: Buffer.alloc(0) });

/** A delta ADS stream. */
export const DELTA_ADS: SessionSettings = {
  protocol: "delta",
  isAlone: false,
  knowsLimits: false,
  recall: () => undefined,
  compose: COUNTING,
};

/** The response that a request is about. */
type Answered = Pick<Outgoing, "typeUrl" | "nonce">;

/** A pretended Envoy on virtual time: what was written to it, and answers by hand. */
export class Envoy {
  readonly wire: Outgoing[] = [];
  readonly expired: string[] = [];
  readonly session: StreamSession;
  nowMs = 0;
  /** Responses that its connection still takes. */
  room = Number.POSITIVE_INFINITY;

  constructor(
    readonly node = new NodeRecord("envoy-1"),
    settings: SessionSettings = DELTA_ADS,
  ) {
    this.session = new StreamSession(node, settings, {
      write: (outgoing) => {
        this.wire.push(outgoing);
        this.room -= 1;
      },
      canWrite: () => this.room > 0,
      accepted: () => undefined,
      refused: () => undefined,
      waitExpired: (type) => this.expired.push(SHORT[type]),
    });
  }

  /** Everything written since the last call: `CDS +a -b`. */
  take(): string[] {
    return this.wire.splice(0).map(({ typeUrl, items }) => {
      const names = items.map(({ name, version }) => (version === REMOVED ? `-${name}` : `+${name}`));
      return [SHORT[typeUrl], ...names].join(" ");
    });
  }

  request(request: DeepPartial<DeltaDiscoveryRequest>): void {
    this.session.request(deltaAsk(DeltaDiscoveryRequest.fromPartial(request as object)), this.nowMs);
  }

  ask(typeUrl: ResourceType, names: readonly string[] = [], initial: Record<string, string> = {}): void {
    this.request({ typeUrl, resourceNamesSubscribe: [...names], initialResourceVersions: initial });
  }

  drop(typeUrl: ResourceType, names: readonly string[]): void {
    this.request({ typeUrl, resourceNamesUnsubscribe: [...names] });
  }

  ack(last: Answered | undefined): void {
    if (last === undefined) throw new Error("nothing to acknowledge");
    this.request({ typeUrl: last.typeUrl, responseNonce: last.nonce });
  }

  nack(last: Answered | undefined, message: string): void {
    if (last === undefined) throw new Error("nothing to refuse");
    this.request({ typeUrl: last.typeUrl, responseNonce: last.nonce, errorDetail: { code: 13, message } });
  }

  last(typeUrl: ResourceType): Outgoing | undefined {
    return this.wire.findLast((outgoing) => outgoing.typeUrl === typeUrl);
  }

  /** Accepts all that is written until nothing comes any more, and returns it. */
  acceptAll(): string[] {
    const seen: string[] = [];
    while (this.wire.length > 0) {
      const [first] = this.wire;
      seen.push(...this.takeFirst());
      this.ack(first);
    }
    return seen;
  }

  takeFirst(): string[] {
    const rest = this.wire.slice(1);
    this.wire.length = 1;
    const taken = this.take();
    this.wire.push(...rest);
    return taken;
  }

  at(nowMs: number): void {
    this.nowMs = nowMs;
    this.session.advance(nowMs);
  }
}
