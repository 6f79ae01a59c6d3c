import { Client, type ClientDuplexStream, credentials } from "@grpc/grpc-js";
import { Node } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/base.js";
import {
  DeltaDiscoveryRequest,
  DeltaDiscoveryResponse,
} from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";

const METHOD = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
const PREFIX = "type.googleapis.com/envoy.config";
const CLUSTER = `${PREFIX}.cluster.v3.Cluster`;
const ENDPOINT = `${PREFIX}.endpoint.v3.ClusterLoadAssignment`;
const LISTENER = `${PREFIX}.listener.v3.Listener`;
const SCOPE = `${PREFIX}.route.v3.ScopedRouteConfiguration`;
const ROUTE = `${PREFIX}.route.v3.RouteConfiguration`;
const EXTENSION = `${PREFIX}.core.v3.TypedExtensionConfig`;

/** What one response was about. */
export interface Received {
  readonly typeUrl: string;
  readonly names: readonly string[];
  readonly bytes: number;
}

/**
 * A delta ADS stream that asks as Envoy does: clusters, listeners and scopes as a whole, then what these name. It accepts
 * everything and keeps names only.
 */
export class DeltaClient {
  readonly #client: Client;
  readonly #stream: ClientDuplexStream<Buffer, Buffer>;
  readonly #held = new Map<string, Set<string>>();
  #onReceived: (received: Received) => void = () => undefined;
  #fail: (error: Error) => void = () => undefined;

  constructor(address: string, nodeId: string) {
    const raw = (bytes: Buffer): Buffer => bytes;
    this.#client = new Client(address, credentials.createInsecure(), { "grpc.max_receive_message_length": -1 });
    this.#stream = this.#client.makeBidiStreamRequest(METHOD, raw, raw);
    this.#stream.on("data", (bytes: Buffer) => this.#receive(bytes));
    this.#stream.on("error", (error) => this.#fail(error));
    for (const typeUrl of [CLUSTER, LISTENER, SCOPE]) this.#ask({ node: Node.fromPartial({ id: nodeId }), typeUrl });
  }

  /** How many resources of all types are held. */
  get held(): number {
    return [...this.#held.values()].reduce((sum, names) => sum + names.size, 0);
  }

  /** Resolves with all responses up to the first after which `isEnough` holds. */
  until(isEnough: (received: Received) => boolean): Promise<readonly Received[]> {
    return new Promise((resolve, reject) => {
      const all: Received[] = [];
      this.#fail = reject;
      this.#onReceived = (received) => {
        all.push(received);
        if (!isEnough(received)) return;
        this.#onReceived = () => undefined;
        this.#fail = () => undefined;
        resolve(all);
      };
    });
  }

  close(): void {
    this.#fail = () => undefined;
    this.#stream.cancel();
    this.#client.close();
  }

  #receive(bytes: Buffer): void {
    const response = DeltaDiscoveryResponse.decode(bytes);
    const { typeUrl } = response;
    const names = response.resources.map(({ name }) => name);
    const held = this.#held.get(typeUrl) ?? new Set();
    this.#held.set(typeUrl, held);
    const isNew = names.filter((name) => !held.has(name));
    for (const name of names) held.add(name);
    for (const name of response.removedResources) held.delete(name);
    this.#ask({ typeUrl, responseNonce: response.nonce });
    this.#askForNamed(typeUrl, isNew);
    this.#onReceived({ typeUrl, names, bytes: bytes.length });
  }

  #askForNamed(typeUrl: string, names: readonly string[]): void {
    if (names.length === 0) return;
    if (typeUrl === CLUSTER) this.#ask({ typeUrl: ENDPOINT, resourceNamesSubscribe: [...names] });
    if (typeUrl === LISTENER) this.#ask({ typeUrl: EXTENSION, resourceNamesSubscribe: ["gate"] });
    if (typeUrl === SCOPE) {
      this.#ask({ typeUrl: ROUTE, resourceNamesSubscribe: names.map((name) => `routes/${name}`) });
    }
  }

  #ask(fields: Partial<DeltaDiscoveryRequest>): void {
    const request = { ...DeltaDiscoveryRequest.fromPartial({}), ...fields };
    this.#stream.write(Buffer.from(DeltaDiscoveryRequest.encode(request).finish()));
  }
}
