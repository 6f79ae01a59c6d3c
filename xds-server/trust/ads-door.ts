import { type Server, ServerCredentials } from "@grpc/grpc-js";
import { identityUri, type MeshIdentity } from "@servemesh/proto/identity";
import { MeshCredentials, peerOf } from "@servemesh/proto/mesh-credentials";
import type { Address } from "../platform/address.js";
import type { Clock } from "../platform/clock.js";
import { bindServer } from "../platform/grpc-server.js";
import type { Logger } from "../platform/logger.js";
import type { Finding } from "../registry/state.js";
import type { AuthenticatedCall, AuthorizeNode } from "../xds/node-admission.js";
import { type AuthorizeBatcher, batcherProblem } from "./batcher-identity.js";
import { judgeNode } from "./node-identity.js";
import { TlsListener } from "./tls-listener.js";

/** Files of the control plane's own certificate and of the issuers of its clients'. */
export interface DoorFiles {
  readonly certificate: string;
  readonly privateKey: string;
  readonly clientAuthorities: string;
}

/** The port for Envoys and batchers, and how they prove who they are. */
export interface AdsDoor {
  /**
   * @returns the bound address, with the port that the operating system chose for port 0
   * @throws Error with one sentence when the port cannot be opened
   */
  open(server: Server, address: Address): Promise<Address>;
  /** Absent when the port is plain text. */
  readonly authorizeNode?: AuthorizeNode;
  readonly authorizeBatcher?: AuthorizeBatcher;
  findings(): Finding[];
  close(): void;
}

const FLAG = "--ads";

/** Plain text, for loopback alone: whoever can connect is believed. */
export function plainDoor(): AdsDoor {
  return {
    open: (server, address) => bindServer(server, ServerCredentials.createInsecure(), address, FLAG),
    findings: () => [],
    close: () => undefined,
  };
}

/**
 * Mutual TLS: clients need a certificate of the given issuers, and may do what its identity says, for as long as it counts.
 * @throws Error with one sentence that names the flag, when a file is not good
 */
export function meshDoor(files: DoorFiles, deps: MeshDoorDeps): AdsDoor {
  return new MeshDoor(files, deps);
}

interface MeshDoorDeps {
  readonly clock: Clock;
  readonly logger: Logger;
}

class MeshDoor implements AdsDoor {
  readonly #deps: MeshDoorDeps;
  readonly #own: MeshCredentials;
  #listener: TlsListener | undefined;

  constructor({ certificate, privateKey, clientAuthorities }: DoorFiles, deps: MeshDoorDeps) {
    const { clock, logger } = deps;
    this.#deps = deps;
    this.#own = new MeshCredentials(
      {
        certificate: { flag: "--tls-certificate", path: certificate },
        privateKey: { flag: "--tls-key", path: privateKey },
        authorities: { flag: "--tls-client-ca", path: clientAuthorities },
      },
      { wallMs: () => clock.wallMs(), schedule: (delayMs, run) => clock.schedule(delayMs, run), logger },
    );
    const { kind, trustDomain } = this.#own.identity;
    if (kind === "control-plane") return;
    this.close();
    const [said, wanted] = [identityUri(this.#own.identity), `spiffe://${trustDomain}/control-plane`];
    throw new Error(`--tls-certificate: "${certificate}" is for ${said}, but a control plane needs one for ${wanted}`);
  }

  open(server: Server, address: Address): Promise<Address> {
    this.#listener = new TlsListener(server, this.#own.serverCredentials(), this.#deps.clock);
    return this.#listener.open(address, FLAG);
  }

  readonly authorizeNode: AuthorizeNode = (call, node) => {
    const peer = this.#peerOf(call);
    return "refusal" in peer ? peer : judgeNode(peer.identities, this.#own.identity.trustDomain, node);
  };

  readonly authorizeBatcher: AuthorizeBatcher = (call, model) => {
    const peer = this.#peerOf(call);
    return "refusal" in peer ? peer.refusal : batcherProblem(peer.identities, this.#own.identity.trustDomain, model);
  };

  findings(): Finding[] {
    return this.#own.problems().map((message) => ({ severity: "error", subject: "control-plane", message }));
  }

  close(): void {
    this.#own.close();
    this.#listener?.close();
  }

  #peerOf(call: AuthenticatedCall): { readonly identities: readonly MeshIdentity[] } | { readonly refusal: string } {
    const peer = peerOf(call);
    if (peer === undefined) return { refusal: "this port takes clients with a certificate of the mesh only" };
    const leftMs = peer.validToMs - this.#deps.clock.wallMs();
    // A session that TLS resumes is not checked again.
    if (!(leftMs > 0)) return { refusal: "the certificate of this connection has expired; connect with a new one" };
    // Whoever was let in leaves when its certificate ends, also if it stays connected all the time.
    this.#listener?.cutIn(leftMs, call.getPeer());
    return peer;
  }
}
