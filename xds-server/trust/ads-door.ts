import { type Server, ServerCredentials } from "@grpc/grpc-js";
import { identityUri } from "@servemesh/proto/identity";
import { MeshCredentials, peerOf } from "@servemesh/proto/mesh-credentials";
import { MeshListener } from "@servemesh/proto/mesh-listener";
import type { Address } from "../platform/address.js";
import type { Clock } from "../platform/clock.js";
import { bindServer, portProblem } from "../platform/grpc-server.js";
import type { Logger } from "../platform/logger.js";
import type { Finding } from "../registry/state.js";
import type { AuthorizeNode } from "../xds/node-admission.js";
import { type AuthorizeBatcher, batcherProblem } from "./batcher-identity.js";
import { judgeNode } from "./node-identity.js";

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
  #listener: MeshListener | undefined;

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

  async open(server: Server, address: Address): Promise<Address> {
    const { clock, logger } = this.#deps;
    this.#listener = new MeshListener(this.#own, server, {
      endsWithCertificate: true,
      logger,
      schedule: (delayMs, run) => clock.schedule(delayMs, run),
      wallMs: () => clock.wallMs(),
    });
    try {
      return { host: address.host, port: await this.#listener.open(address.host, address.port) };
    } catch (error) {
      throw new Error(portProblem(FLAG, address, error as Error));
    }
  }

  readonly authorizeNode: AuthorizeNode = (call, node) => judgeNode(peerOf(call), this.#own.identity.trustDomain, node);

  readonly authorizeBatcher: AuthorizeBatcher = (call, model) =>
    batcherProblem(peerOf(call), this.#own.identity.trustDomain, model);

  findings(): Finding[] {
    return this.#own.problems().map((message) => ({ severity: "error", subject: "control-plane", message }));
  }

  close(): void {
    this.#own.close();
    this.#listener?.close();
  }
}
