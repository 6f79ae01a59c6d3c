import { BlockList, isIP } from "node:net";
import { identityUri, type MeshIdentity } from "@servemesh/proto/identity";
import type { AuthenticatedCall } from "../xds/node-admission.js";

/** Judges a batcher that wants to register a model by its certificate. @returns why it may not; undefined when it may */
export type AuthorizeBatcher = (call: AuthenticatedCall, model: string) => string | undefined;

/**
 * Why a batcher may not register a model (DESIGN §9), undefined when it may: its certificate must name it (`batcher/ranker`).
 * Pure.
 * @param peer identities of the connection's certificate
 */
export function batcherProblem(peer: readonly MeshIdentity[], trustDomain: string, model: string): string | undefined {
  const wanted = identityUri({ trustDomain, kind: "batcher", name: model });
  const names = peer.map(identityUri);
  if (names.includes(wanted)) return undefined;
  const said = names.length === 0 ? "names no part of a mesh" : `is for ${names.join(" and ")}`;
  return `hello.model ${model} may not be registered by this batcher: its certificate ${said}; give it one for ${wanted}`;
}

/** Addresses that batchers may register besides their connection's own. */
export class BatcherRanges {
  readonly #list = new BlockList();

  /**
   * @param ranges like `10.1.0.0/16` or `fd00::/8`
   * @throws Error with one sentence that names the flag
   */
  constructor(ranges: readonly string[]) {
    for (const range of ranges) this.#add(range);
  }

  /** @param ip without brackets */
  includes(ip: string): boolean {
    const version = isIP(ip);
    return version !== 0 && this.#list.check(ip, version === 6 ? "ipv6" : "ipv4");
  }

  #add(range: string): void {
    const [, ip = "", bits = ""] = /^([0-9a-fA-F:.]+)\/([0-9]{1,3})$/.exec(range) ?? [];
    const version = isIP(ip);
    const prefix = Number(bits);
    if (version === 0 || prefix > (version === 6 ? 128 : 32)) {
      throw new Error(
        `--batcher-range: "${range.slice(0, 80)}" is no range of addresses; write for example 10.1.0.0/16`,
      );
    }
    this.#list.addSubnet(ip, prefix, version === 6 ? "ipv6" : "ipv4");
  }
}
