import {
  Client,
  type ClientDuplexStream,
  credentials,
  Server,
  ServerCredentials,
  type ServiceDefinition,
} from "@grpc/grpc-js";
import {
  type DeepPartial,
  DeltaDiscoveryRequest,
  DeltaDiscoveryResponse,
} from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import type { Clock } from "../platform/clock.js";
import { isResourceType } from "../snapshot/resource-types.js";
import type { DiscoveryCall } from "./discovery-services.js";
import { ADS_PATHS } from "./stream-crowd-fixture.js";
import { nameAndRevision } from "./world-fixture.js";
import type { ConnectionMetrics } from "./xds-metrics.js";
import { XdsServer, type XdsServerDeps } from "./xds-server.js";

type Handlers = Readonly<Record<string, (call: DiscoveryCall) => void>>;

/** An xDS server whose streams are watched from within, on a free port. */
export class WatchedDoor {
  readonly xds: XdsServer;
  /** The server's side of each stream, in order of their coming. */
  readonly calls: DiscoveryCall[] = [];
  readonly refused: string[] = [];
  readonly ended: string[] = [];
  readonly #server = new Server();

  constructor(clock: Clock, settings: Pick<XdsServerDeps, "admission" | "streamAge">) {
    const connectionMetrics: ConnectionMetrics = {
      streamRefused: (reason) => this.refused.push(reason),
      streamEnded: (reason) => this.ended.push(reason),
    };
    const logger = { info: () => undefined, warn: () => undefined, isLevelEnabled: () => false };
    this.xds = new XdsServer({ clock, logger, connectionMetrics, ...settings });
  }

  async listen(): Promise<number> {
    const watched = {
      addService: (definition: ServiceDefinition, handlers: Handlers) => {
        const watching = Object.entries(handlers).map(([key, handle]) => [
          key,
          (call: DiscoveryCall) => {
            this.calls.push(call);
            handle(call);
          },
        ]);
        this.#server.addService(definition, Object.fromEntries(watching));
      },
    };
    this.xds.addTo(watched as unknown as Server);
    return new Promise((resolve, reject) =>
      this.#server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
        error === null ? resolve(port) : reject(error),
      ),
    );
  }

  close(): void {
    this.xds.close();
    this.#server.forceShutdown();
  }
}

/** One delta ADS stream, of many on a connection. */
export class Caller {
  /** Every `name@revision` that came. */
  readonly resources: string[] = [];
  /** Code and text of the end; undefined before. */
  end: string | undefined;
  /** Each response at once. */
  accepts = true;
  #last = { typeUrl: "", responseNonce: "" };
  readonly #call: ClientDuplexStream<Buffer, Buffer>;

  /** @param names that it asks for; none means all */
  constructor(client: Client, nodeId: string, typeUrl: string, names: readonly string[] = []) {
    const raw = (bytes: Buffer): Buffer => bytes;
    this.#call = client.makeBidiStreamRequest(ADS_PATHS.delta, raw, raw);
    this.#call.on("data", (bytes: Buffer) => this.#receive(bytes));
    this.#call.on("error", () => undefined);
    this.#call.on("status", ({ code, details }) => {
      this.end = `${code} ${details}`;
    });
    this.send({ node: { id: nodeId }, typeUrl, resourceNamesSubscribe: [...names] });
  }

  send(request: DeepPartial<DeltaDiscoveryRequest>): void {
    const whole = DeltaDiscoveryRequest.fromPartial(request as object);
    this.#call.write(Buffer.from(DeltaDiscoveryRequest.encode(whole).finish()));
  }

  /** Acknowledges the last response. */
  accept(): void {
    this.send(this.#last);
  }

  /** Reads no more, so that the server's writes stay where they are. */
  stopReading(): void {
    this.#call.pause();
  }

  readOn(): void {
    this.#call.resume();
  }

  cancel(): void {
    this.#call.cancel();
  }

  #receive(bytes: Buffer): void {
    const { typeUrl, nonce, resources } = DeltaDiscoveryResponse.decode(bytes);
    if (!isResourceType(typeUrl)) throw new Error(`a response of the unknown type ${typeUrl}`);
    for (const { resource } of resources) this.resources.push(nameAndRevision(typeUrl, resource?.value ?? bytes));
    this.#last = { typeUrl, responseNonce: nonce };
    if (this.accepts) this.accept();
  }
}

/** A connection of its own. */
export function connect(port: number): Client {
  return new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    "grpc.use_local_subchannel_pool": 1,
    "grpc.max_receive_message_length": -1,
  });
}
