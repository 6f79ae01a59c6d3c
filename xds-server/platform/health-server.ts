import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Registry } from "prom-client";
import type { Address } from "./address.js";
import { portProblem } from "./grpc-server.js";

export interface HealthSources {
  /** Undefined when ready, else why not. */
  readonly notReady: () => string | undefined;
  readonly metrics: Registry;
}

export interface HealthServer {
  readonly address: Address;
  close(): Promise<void>;
}

/** Connections at a time: probes and one or two scrapers. */
const CONNECTIONS_MAX = 100;

/**
 * `/live` (the event loop turns), `/ready` (there is a snapshot to serve; `/livez` and `/readyz` are the same) and `/metrics` (Prometheus text).
 * @param field flag that an error names
 * @throws Error with one sentence when the port cannot be opened
 */
export function startHealthServer(address: Address, field: string, sources: HealthSources): Promise<HealthServer> {
  const server = createServer((request, response) => {
    const answer = (status: number, text: string, type = "text/plain; charset=utf-8"): void => {
      response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(text);
    };
    const path = request.url?.split("?")[0];
    if (request.method !== "GET") answer(405, "only GET\n");
    else if (path === "/live" || path === "/livez") answer(200, "ok\n");
    else if (path === "/ready" || path === "/readyz") {
      const why = sources.notReady();
      answer(why === undefined ? 200 : 503, `${why ?? "ok"}\n`);
    } else if (path === "/metrics") {
      sources.metrics.metrics().then(
        (text) => answer(200, text, sources.metrics.contentType),
        (error: unknown) => answer(500, `${String(error)}\n`),
      );
    } else answer(404, "try /live, /ready or /metrics\n");
  });
  server.headersTimeout = 5_000;
  server.requestTimeout = 5_000;
  server.maxConnections = CONNECTIONS_MAX;
  return listen(server, address, field);
}

function listen(server: Server, address: Address, field: string): Promise<HealthServer> {
  return new Promise((resolve, reject) => {
    const refuse = (error: Error): void => reject(new Error(portProblem(field, address, error)));
    server.once("error", refuse);
    server.listen(address.port, address.host, () => {
      server.removeListener("error", refuse);
      resolve({
        address: { host: address.host, port: (server.address() as AddressInfo).port },
        close: () =>
          new Promise((closed) => {
            server.close(() => closed());
            server.closeAllConnections();
          }),
      });
    });
  });
}
