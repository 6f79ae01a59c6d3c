import type { Node } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/base.js";
import {
  DeltaDiscoveryRequest,
  DiscoveryRequest,
} from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { identityOf, type NodeIdentity } from "./node-groups.js";

/** The two forms of the protocol: state of the world (SotW) names all it wants each time, delta only what changed. */
export type Protocol = "delta" | "sotw";

/** Longer requests are no acknowledgements, or of a client that names so much that decoding is not what costs. */
const REMEMBERED_BYTES_MAX = 64 * 1024;

/** The name that stands for every resource of a type. */
export const WILDCARD = "*";

/** What a request wants: a change of the names, or all of them anew. */
export type AskedNames =
  | { readonly kind: "change"; readonly subscribe: readonly string[]; readonly unsubscribe: readonly string[] }
  | { readonly kind: "all"; readonly names: readonly string[] };

/** What a stream's first request says that the client holds from earlier streams. */
export type Holdings =
  | { readonly kind: "resources"; readonly versions: Readonly<Record<string, string>> }
  /** SotW has one version for the whole type; empty when the client holds nothing. */
  | { readonly kind: "type"; readonly version: string };

/** One discovery request, the same for both protocols. */
export interface DiscoveryAsk {
  readonly typeUrl: string;
  /** Only in a stream's first request; empty afterwards. */
  readonly nodeId: string;
  /** What else the first request says about the client. */
  readonly node?: NodeIdentity;
  readonly responseNonce: string;
  /** The client's words when it refuses the last response, else undefined. Nothing but this tells a refusal. */
  readonly refusal: string | undefined;
  readonly names: AskedNames;
  readonly holds: Holdings;
}

function nodeOf(node: Node | undefined): Pick<DiscoveryAsk, "nodeId" | "node"> {
  return node === undefined ? { nodeId: "" } : { nodeId: node.id, node: identityOf(node) };
}

export function deltaAsk(request: DeltaDiscoveryRequest): DiscoveryAsk {
  return {
    typeUrl: request.typeUrl,
    ...nodeOf(request.node),
    responseNonce: request.responseNonce,
    refusal: request.errorDetail?.message,
    names: {
      kind: "change",
      subscribe: request.resourceNamesSubscribe,
      unsubscribe: request.resourceNamesUnsubscribe,
    },
    holds: { kind: "resources", versions: request.initialResourceVersions },
  };
}

export function sotwAsk(request: DiscoveryRequest): DiscoveryAsk {
  return {
    typeUrl: request.typeUrl,
    ...nodeOf(request.node),
    responseNonce: request.responseNonce,
    refusal: request.errorDetail?.message,
    names: { kind: "all", names: request.resourceNames },
    holds: { kind: "type", version: request.versionInfo },
  };
}

/**
 * Decodes requests. Thousands of streams acknowledge one shared message with the same bytes one after the other, so the
 * last request of each kind is remembered, and the same bytes are the same object again.
 */
export class AskReader {
  readonly #last = new Map<Protocol, { readonly bytes: Buffer; readonly ask: DiscoveryAsk }>();

  /** @throws Error when the bytes are no discovery request */
  read(protocol: Protocol, bytes: Buffer): DiscoveryAsk {
    const last = this.#last.get(protocol);
    if (last?.bytes.equals(bytes)) return last.ask;
    const ask =
      protocol === "delta" ? deltaAsk(DeltaDiscoveryRequest.decode(bytes)) : sotwAsk(DiscoveryRequest.decode(bytes));
    if (bytes.length <= REMEMBERED_BYTES_MAX) this.#last.set(protocol, { bytes, ask });
    return ask;
  }
}

/** True for a client that has just started: it has nothing from an earlier stream. */
export function holdsNothing({ holds }: DiscoveryAsk): boolean {
  return holds.kind === "type" ? holds.version === "" : Object.keys(holds.versions).length === 0;
}

/** Names that a request adds, without the wildcard; of a SotW request all that it lists. */
export function namesIn({ names }: DiscoveryAsk): readonly string[] {
  return (names.kind === "all" ? names.names : names.subscribe).filter((name) => name !== WILDCARD);
}
