import type { ChannelCredentials, Server } from "@grpc/grpc-js";
import { identityUri, type MeshIdentity } from "@servemesh/proto/identity";
import { MeshCredentials, type MeshFiles } from "@servemesh/proto/mesh-credentials";
import { MeshListener } from "@servemesh/proto/mesh-listener";
import type { Clock } from "./clock.js";
import type { Logger } from "./logger.js";

/** Paths of PEM files. */
export interface IdentityFiles {
  readonly certificate: string;
  readonly privateKey: string;
  /** Issuers of the certificates of gateways and of the control plane. */
  readonly authorities: string;
}

export interface BatcherIdentityDeps {
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Who this batcher is in the mesh, and whom it talks to (DESIGN §9): its doors take gateways alone, because whoever gets in
 * may set mesh headers, and it registers itself with nobody but the control plane.
 */
export class BatcherIdentity {
  readonly #credentials: MeshCredentials;
  readonly #deps: BatcherIdentityDeps;

  /** @throws Error with one sentence that names the flag, when the files are not good or not for this model */
  constructor(files: IdentityFiles, model: string, deps: BatcherIdentityDeps) {
    this.#deps = deps;
    const { clock, logger } = deps;
    this.#credentials = new MeshCredentials(named(files), {
      wallMs: () => clock.wallMs(),
      schedule: (delayMs, run) => this.#schedule(delayMs, run),
      logger,
    });
    const { kind, name, trustDomain } = this.#credentials.identity;
    if (kind === "batcher" && name === model) return;
    this.close();
    const said = identityUri(this.#credentials.identity);
    const wanted = identityUri({ trustDomain, kind: "batcher", name: model });
    throw new Error(
      `--tls-certificate: "${files.certificate}" is for ${said}, but this batcher needs one for ${wanted}`,
    );
  }

  /** A port for gateways. The caller opens and closes it. */
  listenerFor(server: Server): MeshListener {
    const { clock, logger } = this.#deps;
    return new MeshListener(this.#credentials, server, {
      refusalOf: (peer) => this.#gatewayProblem(peer),
      // Requests are under way on it; a gateway with a new certificate uses it for new connections.
      endsWithCertificate: false,
      logger,
      schedule: (delayMs, run) => this.#schedule(delayMs, run),
      wallMs: () => clock.wallMs(),
    });
  }

  /** For a connection to the control plane, with the certificate in force. */
  controlPlaneCredentials(): ChannelCredentials {
    return this.#credentials.channelCredentials(({ kind }) => kind === "control-plane");
  }

  /** Calls back when another certificate came into force. */
  onChange(listener: () => void): void {
    this.#credentials.onChange(listener);
  }

  close(): void {
    this.#credentials.close();
  }

  #gatewayProblem(peer: readonly MeshIdentity[]): string | undefined {
    const isGateway = ({ kind }: MeshIdentity): boolean => kind === "gateway" || kind === "sidecar" || kind === "group";
    if (peer.some((identity) => this.#credentials.isOwnDomain(identity) && isGateway(identity))) return undefined;
    const said = peer.length === 0 ? "no part of a mesh" : peer.map(identityUri).join(" and ");
    return `its certificate is for ${said}, but only gateways and sidecars of ${this.#credentials.identity.trustDomain} may call a batcher`;
  }

  #schedule(delayMs: number, run: () => void): () => void {
    const { clock } = this.#deps;
    const timer = clock.schedule(clock.nowMs() + delayMs, run);
    return () => timer.cancel();
  }
}

function named({ certificate, privateKey, authorities }: IdentityFiles): MeshFiles {
  return {
    certificate: { flag: "--tls-certificate", path: certificate },
    privateKey: { flag: "--tls-key", path: privateKey },
    authorities: { flag: "--tls-ca", path: authorities },
  };
}
