import { createServer, type Server as NetServer, type Socket } from "node:net";
import type { Server, ServerCredentials } from "@grpc/grpc-js";
import type { Address } from "../platform/address.js";
import type { Clock } from "../platform/clock.js";
import { portProblem } from "../platform/grpc-server.js";

interface Connection {
  readonly socket: Socket;
  cancelCut: () => void;
}

/**
 * A port of a gRPC server whose connections can be cut one by one. Ending a stream would not do when a certificate has
 * expired: its client would open the next one on the same connection, under the same certificate.
 */
export class TlsListener {
  readonly #server: Server;
  readonly #credentials: ServerCredentials;
  readonly #clock: Pick<Clock, "schedule">;
  readonly #connections = new Map<string, Connection>();
  #listener: NetServer | undefined;

  constructor(server: Server, credentials: ServerCredentials, clock: Pick<Clock, "schedule">) {
    this.#server = server;
    this.#credentials = credentials;
    this.#clock = clock;
  }

  /**
   * @param field flag that an error names
   * @returns the bound address, with the port that the operating system chose for port 0
   * @throws Error with one sentence when the port cannot be opened
   */
  open(address: Address, field: string): Promise<Address> {
    const injector = this.#server.createConnectionInjector(this.#credentials);
    const listener = createServer((socket) => {
      const peer = `${socket.remoteAddress}:${socket.remotePort}`;
      const connection = { socket, cancelCut: () => undefined };
      this.#connections.set(peer, connection);
      socket.on("close", () => this.#closed(peer, connection));
      // Whoever reads it hears of it too, and a connection that breaks early has no reader yet.
      socket.on("error", () => undefined);
      injector.injectConnection(socket);
    });
    this.#listener = listener;
    return new Promise((resolve, reject) => {
      listener.once("error", (error) => reject(new Error(portProblem(field, address, error))));
      listener.listen(address.port, address.host, () => {
        const bound = listener.address();
        resolve({ host: address.host, port: bound !== null && typeof bound === "object" ? bound.port : address.port });
      });
    });
  }

  /** Cuts a connection after a time. @param peer as the calls on it tell it */
  cutIn(delayMs: number, peer: string): void {
    const connection = this.#connections.get(peer);
    if (connection === undefined) return;
    connection.cancelCut();
    connection.cancelCut = this.#clock.schedule(delayMs, () => connection.socket.destroy());
  }

  /** Takes no new connections. Those that are open are the gRPC server's to end. */
  close(): void {
    this.#listener?.close();
    for (const { cancelCut } of this.#connections.values()) cancelCut();
  }

  #closed(peer: string, connection: Connection): void {
    connection.cancelCut();
    if (this.#connections.get(peer) === connection) this.#connections.delete(peer);
  }
}
