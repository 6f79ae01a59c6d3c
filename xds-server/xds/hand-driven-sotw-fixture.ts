import { type DeepPartial, DiscoveryRequest } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import type { ResourceType } from "../snapshot/resource-types.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import { sotwAsk } from "./discovery-ask.js";
import { COUNTING, Envoy } from "./hand-driven-envoy-fixture.js";
import { NodeRecord } from "./node-record.js";
import { RecentStates } from "./recent-states.js";
import type { Outgoing } from "./stream-session.js";

/** The response that a request is about. */
type Answered = Pick<Outgoing, "typeUrl" | "nonce" | "systemVersion">;

/** A pretended Envoy that speaks state of the world: it repeats its names in each request, and the version it holds. */
export class SotwEnvoy extends Envoy {
  readonly #recent: RecentStates;
  readonly #names = new Map<string, readonly string[]>();
  /** Version that it accepted last, by type. */
  readonly #versions = new Map<string, string>();

  /** @param recent the states that the server remembers */
  constructor(node = new NodeRecord("envoy-1"), recent = new RecentStates(), isAlone = false) {
    super(node, {
      protocol: "sotw",
      isAlone,
      knowsLimits: false,
      recall: recent.recall.bind(recent),
      compose: COUNTING,
    });
    this.#recent = recent;
  }

  publish(snapshot: Snapshot): void {
    this.#recent.remember(snapshot);
    this.session.setTarget(snapshot, this.nowMs);
  }

  sotwRequest(request: DeepPartial<DiscoveryRequest>): void {
    this.session.request(sotwAsk(DiscoveryRequest.fromPartial(request as object)), this.nowMs);
  }

  /** @param version what it holds from an earlier stream */
  start(typeUrl: ResourceType, names: readonly string[] = [], version = ""): void {
    this.#names.set(typeUrl, names);
    this.#versions.set(typeUrl, version);
    this.sotwRequest({ typeUrl, resourceNames: [...names], versionInfo: version });
  }

  /** Changes the names after a response was accepted: with its nonce and version. */
  rename(typeUrl: ResourceType, names: readonly string[], responseNonce: string): void {
    this.#names.set(typeUrl, names);
    this.#say(typeUrl, responseNonce);
  }

  override ack(last: Answered | undefined): void {
    if (last === undefined) throw new Error("nothing to acknowledge");
    this.#versions.set(last.typeUrl, last.systemVersion);
    this.#say(last.typeUrl, last.nonce);
  }

  override nack(last: Answered | undefined, message: string): void {
    if (last === undefined) throw new Error("nothing to refuse");
    this.#say(last.typeUrl, last.nonce, { errorDetail: { code: 13, message } });
  }

  /** Version that it would name on a new stream. */
  version(typeUrl: ResourceType): string {
    return this.#versions.get(typeUrl) ?? "";
  }

  #say(typeUrl: string, responseNonce: string, more: DeepPartial<DiscoveryRequest> = {}): void {
    const resourceNames = [...(this.#names.get(typeUrl) ?? [])];
    const versionInfo = this.#versions.get(typeUrl) ?? "";
    this.sotwRequest({ typeUrl, responseNonce, resourceNames, versionInfo, ...more });
  }
}

/** Names in a response, as a client reads it: of a full state everything else is deleted. */
export function contentsOf(outgoing: Outgoing | undefined): readonly string[] {
  return outgoing?.contents.map(({ name }) => name) ?? ["no response"];
}
