import type { AddressInfo } from "node:net";
import { createServer, type TLSSocket, type Server as TlsServer } from "node:tls";
import { type Server, ServerCredentials } from "@grpc/grpc-js";
import { identitiesOf, type MeshIdentity } from "./identity.js";
import type { MeshCredentials } from "./mesh-credentials.js";

export interface MeshListenerSettings {
  /** Why a peer may not connect; undefined lets it in. Asked once per connection, so that calls need no check. */
  readonly refusalOf?: (peer: readonly MeshIdentity[]) => string | undefined;
  /**
   * Cuts a connection when its peer's certificate ends. For ports whose streams last for ever: a new stream would go on under
   * the old certificate. Not for ports whose calls must not be lost.
   */
  readonly endsWithCertificate: boolean;
  readonly logger: { warn(fields: object, message: string): void };
  /** Runs something once after a delay in ms; the returned function cancels it. */
  schedule(delayMs: number, run: () => void): () => void;
  /** Epoch ms. */
  wallMs(): number;
}

/** A client that opens a connection and says nothing is let go after this. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/**
 * A port of a gRPC server that only parts of the mesh may use (DESIGN §9). TLS is done here, and grpc-js gets connections
 * that have proved themselves.
 */
export class MeshListener {
  readonly #settings: MeshListenerSettings;
  readonly #tls: TlsServer;
  readonly #stopFollowing: () => void;

  /** @param server gets the connections; the caller ends it */
  constructor(own: MeshCredentials, server: Server, settings: MeshListenerSettings) {
    this.#settings = settings;
    const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
    const { cert, key, ca } = own.tls;
    this.#tls = createServer({
      ...{ cert, key, ca },
      requestCert: true,
      rejectUnauthorized: true,
      ALPNProtocols: ["h2"],
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    });
    this.#stopFollowing = own.onChange(() => this.#tls.setSecureContext(own.tls));
    this.#tls.on("tlsClientError", ({ message }: Error, { remoteAddress }) => {
      settings.logger.warn({ peer: remoteAddress, problem: message }, "connection refused");
    });
    this.#tls.on("secureConnection", (socket) => {
      if (this.#admit(socket)) injector.injectConnection(socket);
    });
  }

  /**
   * @param port 0 lets the operating system choose one
   * @returns the bound port
   */
  open(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#tls.once("error", reject);
      this.#tls.listen(port, host, () => resolve((this.#tls.address() as AddressInfo).port));
    });
  }

  /** Takes no new connections. Those that are open are the gRPC server's to end. */
  close(): void {
    this.#stopFollowing();
    this.#tls.close();
  }

  #admit(socket: TLSSocket): boolean {
    const { endsWithCertificate, refusalOf, schedule, wallMs, logger } = this.#settings;
    // One that breaks before grpc-js has it has nobody else to tell.
    socket.on("error", () => undefined);
    const { subjectaltname, valid_to: validTo } = socket.getPeerCertificate();
    const peer = `${socket.remoteAddress}:${socket.remotePort}`;
    const leftMs = Date.parse(validTo) - wallMs();
    // A session that TLS resumes is not checked by it again.
    const problem = leftMs > 0 ? refusalOf?.(identitiesOf(subjectaltname)) : "its certificate has expired";
    if (problem !== undefined) {
      logger.warn({ peer, problem }, "connection refused");
      socket.destroy();
      return false;
    }
    if (endsWithCertificate)
      socket.on(
        "close",
        schedule(leftMs, () => socket.destroy()),
      );
    return true;
  }
}
