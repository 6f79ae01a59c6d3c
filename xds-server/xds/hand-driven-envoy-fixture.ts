import { DeltaDiscoveryRequest } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import {
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  LISTENER_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  SCOPE_TYPE,
} from "../snapshot/resource-types.js";
import { DeltaSession, type Outgoing } from "./delta-session.js";
import { NodeRecord, REMOVED } from "./node-record.js";

/** Names of the types as people say them. */
export const SHORT: Readonly<Record<ResourceType, string>> = {
  [CLUSTER_TYPE]: "CDS",
  [ENDPOINT_TYPE]: "EDS",
  [LISTENER_TYPE]: "LDS",
  [SCOPE_TYPE]: "SRDS",
  [ROUTE_TYPE]: "RDS",
  [EXTENSION_TYPE]: "ECDS",
};

/** A pretended Envoy on virtual time: what was written to it, and answers by hand. */
export class Envoy {
  readonly wire: Outgoing[] = [];
  readonly expired: string[] = [];
  readonly session: DeltaSession;
  nowMs = 0;

  constructor(readonly node = new NodeRecord("envoy-1")) {
    this.session = new DeltaSession(node, {
      write: (outgoing) => this.wire.push(outgoing),
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

  ask(typeUrl: ResourceType, names: readonly string[] = [], initial: Record<string, string> = {}): void {
    const request = { typeUrl, resourceNamesSubscribe: [...names], initialResourceVersions: initial };
    this.session.request(DeltaDiscoveryRequest.fromPartial(request), this.nowMs);
  }

  drop(typeUrl: ResourceType, names: readonly string[]): void {
    this.session.request(
      DeltaDiscoveryRequest.fromPartial({ typeUrl, resourceNamesUnsubscribe: [...names] }),
      this.nowMs,
    );
  }

  ack(last: Outgoing | undefined): void {
    if (last === undefined) throw new Error("nothing to acknowledge");
    this.session.request(
      DeltaDiscoveryRequest.fromPartial({ typeUrl: last.typeUrl, responseNonce: last.nonce }),
      this.nowMs,
    );
  }

  nack(last: Outgoing | undefined, message: string): void {
    if (last === undefined) throw new Error("nothing to refuse");
    const errorDetail = { code: 13, message };
    this.session.request(
      DeltaDiscoveryRequest.fromPartial({ typeUrl: last.typeUrl, responseNonce: last.nonce, errorDetail }),
      this.nowMs,
    );
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
