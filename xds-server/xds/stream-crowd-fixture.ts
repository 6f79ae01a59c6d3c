import { Client, type ClientDuplexStream, credentials, Server, ServerCredentials } from "@grpc/grpc-js";
import {
  type DeepPartial,
  DeltaDiscoveryRequest,
  DeltaDiscoveryResponse,
  DiscoveryRequest,
  DiscoveryResponse,
} from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { isResourceType } from "../snapshot/resource-types.js";
import type { Protocol } from "./discovery-ask.js";
import { nameAndRevision } from "./world-fixture.js";
import type { XdsServer, XdsServerDeps } from "./xds-server.js";

/** Looks before a wait gives up, 5 ms apart: far above what anything needs, so that nothing depends on speed. */
const LOOKS_MAX = 4_000;

const DISCOVERY = "/envoy.service.discovery.v3.AggregatedDiscoveryService";
export const ADS_PATHS: Readonly<Record<Protocol, string>> = {
  delta: `${DISCOVERY}/DeltaAggregatedResources`,
  sotw: `${DISCOVERY}/StreamAggregatedResources`,
};
/** The per-type service that an Envoy without ADS opens once for each of its clusters. */
export const EDS_DELTA_PATH = "/envoy.service.endpoint.v3.EndpointDiscoveryService/DeltaEndpoints";

/** Crowds come at once here; that the server slows them down has tests of its own. */
export const WITHOUT_LIMIT: NonNullable<XdsServerDeps["admission"]> = { ratePerS: 1_000_000, burst: 1_000_000 };

/** Waits for a condition. @throws Error when it does not come about */
export async function until(isTrue: () => boolean, what: string): Promise<void> {
  for (let looks = 0; looks < LOOKS_MAX; looks += 1) {
    if (isTrue()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`waited in vain until ${what}`);
}

/** Puts a server of the test's making on a free port. */
export async function listen(xds: XdsServer): Promise<{ port: number; close: () => void }> {
  const server = new Server();
  xds.addTo(server);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  const close = (): void => {
    xds.close();
    server.forceShutdown();
  };
  return { port, close };
}

/** A response as a member of the crowd keeps it. */
export interface CrowdResponse {
  readonly typeUrl: string;
  readonly version: string;
  readonly nonce: string;
  /** `name@revision`. */
  readonly resources: readonly string[];
}

/** One of very many streams on one connection. It accepts each response at once, unless `accepts` is false. */
export class CrowdStream {
  readonly received: CrowdResponse[] = [];
  accepts = true;
  hasEnded = false;
  readonly #call: ClientDuplexStream<Buffer, Buffer>;
  readonly #protocol: Protocol;
  readonly #nodeId: string;
  readonly #names = new Map<string, readonly string[]>();
  #isFirst = true;

  constructor(call: ClientDuplexStream<Buffer, Buffer>, protocol: Protocol, nodeId: string) {
    this.#call = call;
    this.#protocol = protocol;
    this.#nodeId = nodeId;
    call.on("data", (bytes: Buffer) => this.#receive(bytes));
    call.on("error", () => {
      this.hasEnded = true;
    });
    call.on("end", () => {
      this.hasEnded = true;
    });
  }

  /**
   * Asks for names of a type; for all of it when there are none.
   * @param held the response that a SotW client names; it may be of a stream before
   */
  subscribe(typeUrl: string, names: readonly string[] = [], held?: CrowdResponse): void {
    this.#names.set(typeUrl, names);
    if (this.#protocol === "delta") this.#sendDelta({ typeUrl, resourceNamesSubscribe: [...names] });
    else this.#sendSotw(typeUrl, held?.version ?? "", held?.nonce ?? "");
  }

  lastOf(typeUrl: string): CrowdResponse | undefined {
    return this.received.findLast((response) => response.typeUrl === typeUrl);
  }

  /** Every `name@revision` that came, in order. */
  get resources(): readonly string[] {
    return this.received.flatMap(({ resources }) => resources);
  }

  /** Says that no more requests come, as a client that ends in order. */
  end(): void {
    this.#call.end();
  }

  cancel(): void {
    this.#call.cancel();
  }

  #receive(bytes: Buffer): void {
    const response = this.#protocol === "delta" ? readDelta(bytes) : readSotw(bytes);
    this.received.push(response);
    if (!this.accepts) return;
    const { typeUrl, version, nonce } = response;
    if (this.#protocol === "delta") this.#sendDelta({ typeUrl, responseNonce: nonce });
    else this.#sendSotw(typeUrl, version, nonce);
  }

  #sendSotw(typeUrl: string, versionInfo: string, responseNonce: string): void {
    const resourceNames = [...(this.#names.get(typeUrl) ?? [])];
    const request = DiscoveryRequest.fromPartial({
      ...this.#node(),
      typeUrl,
      versionInfo,
      responseNonce,
      resourceNames,
    });
    this.#call.write(Buffer.from(DiscoveryRequest.encode(request).finish()));
  }

  #sendDelta(request: DeepPartial<DeltaDiscoveryRequest>): void {
    const whole = DeltaDiscoveryRequest.fromPartial({ ...this.#node(), ...request } as object);
    this.#call.write(Buffer.from(DeltaDiscoveryRequest.encode(whole).finish()));
  }

  #node(): { node?: { id: string } } {
    if (!this.#isFirst) return {};
    this.#isFirst = false;
    return { node: { id: this.#nodeId } };
  }
}

/** A connection that carries a crowd of streams. */
export class CrowdConnection {
  readonly #client: Client;

  constructor(port: number) {
    this.#client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      "grpc.use_local_subchannel_pool": 1,
    });
  }

  open(protocol: Protocol, nodeId: string, path = ADS_PATHS[protocol]): CrowdStream {
    const raw = (bytes: Buffer): Buffer => bytes;
    return new CrowdStream(this.#client.makeBidiStreamRequest(path, raw, raw), protocol, nodeId);
  }

  close(): void {
    this.#client.close();
  }
}

function readDelta(bytes: Buffer): CrowdResponse {
  const { typeUrl, systemVersionInfo, nonce, resources } = DeltaDiscoveryResponse.decode(bytes);
  const values = resources.map(({ resource }) => resource?.value ?? Buffer.alloc(0));
  return { typeUrl, version: systemVersionInfo, nonce, resources: named(typeUrl, values) };
}

function readSotw(bytes: Buffer): CrowdResponse {
  const { typeUrl, versionInfo, nonce, resources } = DiscoveryResponse.decode(bytes);
  const values = resources.map(({ value }) => value);
  return { typeUrl, version: versionInfo, nonce, resources: named(typeUrl, values) };
}

function named(typeUrl: string, values: readonly Uint8Array[]): string[] {
  if (!isResourceType(typeUrl)) throw new Error(`a response of the unknown type ${typeUrl}`);
  return values.map((value) => nameAndRevision(typeUrl, value));
}
