import { Server } from "@grpc/grpc-js";
import { buildSnapshot, systemClock, type TypeStatus, XdsServer } from "@servemesh/xds-server";
import { type ApiService, apiResources } from "./api-service.js";
import { listen } from "./named-backend.js";

/** What happened on the streams of a host, by type: `Listener`, `RouteConfiguration`, `Cluster`, `ClusterLoadAssignment`. */
interface Exchange {
  readonly type: string;
  readonly what: "sent" | "accepted" | "refused" | "waited in vain";
  /** Of a refusal, the client's. */
  readonly words: string;
}

/** The mesh's xDS server alone, with contents made by hand, on a port that outlives its stops. */
export class XdsHost {
  readonly exchanges: Exchange[] = [];
  #port = 0;
  #streamCount = 0;
  #running: { readonly xds: XdsServer; readonly server: Server } | undefined;

  get port(): number {
    return this.#port;
  }

  /** Open discovery streams. */
  get streamCount(): number {
    return this.#streamCount;
  }

  /** A fresh server that remembers nothing, at the port of the one before. It answers nobody until `publish`. */
  async start(): Promise<void> {
    const note = (what: Exchange["what"], type: string, words = ""): void => {
      this.exchanges.push({ type, what, words });
    };
    const xds = new XdsServer({
      clock: systemClock,
      logger: { info: () => undefined, warn: () => undefined, isLevelEnabled: () => false },
      metrics: {
        streams: (open) => {
          this.#streamCount = open;
        },
        sent: (type) => note("sent", type),
        accepted: (type) => note("accepted", type),
        refused: (type, words) => note("refused", type, words),
        waitExpired: (type) => note("waited in vain", type),
      },
    });
    const server = new Server();
    xds.addTo(server);
    this.#port = await listen(server, this.#port);
    this.#running = { xds, server };
  }

  publish(services: readonly ApiService[]): void {
    this.#xds.setSnapshot(buildSnapshot(apiResources(services)));
  }

  /** How often something happened with a type. */
  count(what: Exchange["what"], type: string): number {
    return this.exchanges.filter((exchange) => exchange.what === what && exchange.type === type).length;
  }

  /** What a node was sent and has taken of a type, by the last part of the type's name; undefined before it asked. */
  typeOf(nodeId: string, type: string): TypeStatus | undefined {
    const node = this.#xds.status().find((status) => status.nodeId === nodeId);
    return node?.types.find(({ typeUrl }) => typeUrl.endsWith(`.${type}`));
  }

  /** Breaks all connections and frees the port, as an end of the process would. */
  stop(): void {
    this.#running?.xds.close();
    this.#running?.server.forceShutdown();
    this.#running = undefined;
  }

  get #xds(): XdsServer {
    if (this.#running === undefined) throw new Error("the xDS server is not running");
    return this.#running.xds;
  }
}
