import { Client, type ClientDuplexStream, credentials } from "@grpc/grpc-js";
import {
  type DeepPartial,
  DeltaDiscoveryRequest,
  DeltaDiscoveryResponse,
  DiscoveryRequest,
  DiscoveryResponse,
} from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { eventually } from "../support/eventually.js";

const ADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService";
/** Far above what an answer needs, so that nothing depends on speed. */
const PATIENCE_MS = 20_000;

interface Codec<Message> {
  encode(message: Message): { finish(): Uint8Array };
  decode(bytes: Uint8Array): Message;
}

/** An aggregated stream driven by hand. It accepts every response at once. */
class AdsStream<Request, Response extends { readonly typeUrl: string }> {
  readonly responses: Response[] = [];
  /** "end" when the server ended it in order, else code and message. */
  readonly ended: Promise<string>;
  readonly #client: Client;
  readonly #call: ClientDuplexStream<Buffer, Buffer>;
  readonly #requests: Codec<Request>;

  constructor(
    address: string,
    method: string,
    requests: Codec<Request>,
    responses: Codec<Response>,
    ack: (response: Response) => Request,
  ) {
    const raw = (bytes: Buffer): Buffer => bytes;
    this.#requests = requests;
    this.#client = new Client(address, credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
    this.#call = this.#client.makeBidiStreamRequest(`${ADS}/${method}`, raw, raw);
    this.#call.on("data", (bytes: Buffer) => {
      const response = responses.decode(bytes);
      this.responses.push(response);
      this.send(ack(response));
    });
    this.ended = new Promise((resolve) => {
      this.#call.on("error", (error: Error & { code?: number }) => resolve(`${error.code} ${error.message}`));
      this.#call.on("end", () => resolve("end"));
    });
  }

  send(request: Request): void {
    this.#call.write(Buffer.from(this.#requests.encode(request).finish()));
  }

  /** Waits for the response with this index among those of a type. @throws Error when it does not come */
  async response(typeUrl: string, index: number): Promise<Response> {
    return eventually(
      `response ${index} of ${typeUrl}`,
      () => this.responses.filter((response) => response.typeUrl === typeUrl)[index],
      { timeoutMs: PATIENCE_MS, everyMs: 10 },
    );
  }

  close(): void {
    this.#call.on("error", () => undefined);
    this.#call.cancel();
    this.#client.close();
  }
}

export class DeltaStream extends AdsStream<DeltaDiscoveryRequest, DeltaDiscoveryResponse> {
  constructor(address: string) {
    super(address, "DeltaAggregatedResources", DeltaDiscoveryRequest, DeltaDiscoveryResponse, (response) =>
      DeltaDiscoveryRequest.fromPartial({ typeUrl: response.typeUrl, responseNonce: response.nonce }),
    );
  }

  subscribe(node: string, typeUrl: string, names: readonly string[]): void {
    const request: DeepPartial<DeltaDiscoveryRequest> = {
      node: { id: node },
      typeUrl,
      resourceNamesSubscribe: [...names],
    };
    this.send(DeltaDiscoveryRequest.fromPartial(request as object));
  }
}

/** Asks for all clusters, or whatever the type is, as state of the world. */
export class SotwStream extends AdsStream<DiscoveryRequest, DiscoveryResponse> {
  constructor(address: string, node: string, typeUrl: string) {
    super(address, "StreamAggregatedResources", DiscoveryRequest, DiscoveryResponse, (response) =>
      DiscoveryRequest.fromPartial({ typeUrl, versionInfo: response.versionInfo, responseNonce: response.nonce }),
    );
    this.send(DiscoveryRequest.fromPartial({ node: { id: node }, typeUrl }));
  }
}
