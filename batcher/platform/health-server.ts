import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Registry } from "prom-client";
import type { Address } from "./address.js";

export interface HealthSources {
  /** Undefined when ready, else why not. */
  readonly notReady: () => string | undefined;
  readonly metrics: Registry;
}

export interface HealthServer {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * `/livez` (the event loop turns), `/readyz` (requests can be served) and `/metrics` (Prometheus text), on loopback.
 * @throws Error when the port is taken
 */
export function startHealthServer(address: Address, sources: HealthSources): Promise<HealthServer> {
  const server = createServer((request, response) => {
    const answer = (status: number, text: string, type = "text/plain; charset=utf-8"): void => {
      response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(text);
    };
    const path = request.url?.split("?")[0];
    if (request.method !== "GET") answer(405, "only GET\n");
    else if (path === "/livez") answer(200, "ok\n");
    else if (path === "/readyz") {
      const why = sources.notReady();
      answer(why === undefined ? 200 : 503, `${why ?? "ok"}\n`);
    } else if (path === "/metrics") {
      sources.metrics.metrics().then(
        (text) => answer(200, text, sources.metrics.contentType),
        (error: unknown) => answer(500, `${String(error)}\n`),
      );
    } else answer(404, "try /livez, /readyz or /metrics\n");
  });
  server.headersTimeout = 5_000;
  server.requestTimeout = 5_000;
  server.maxConnections = 100;
  return listen(server, address);
}

function listen(server: Server, { host, port }: Address): Promise<HealthServer> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host.replace(/^\[|\]$/g, ""), () => {
      server.removeListener("error", reject);
      resolve({
        port: (server.address() as AddressInfo).port,
        close: () =>
          new Promise((closed) => {
            server.close(() => closed());
            server.closeAllConnections();
          }),
      });
    });
  });
}
