import { Client, type ClientDuplexStream, credentials, Server, ServerCredentials } from "@grpc/grpc-js";
import {
  type DeepPartial,
  DeltaDiscoveryRequest,
  DeltaDiscoveryResponse,
  DiscoveryRequest,
  DiscoveryResponse,
} from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { systemClock } from "../platform/clock.js";
import { isResourceType, type ResourceType } from "../snapshot/resource-types.js";
import { type DiscoveryMethod, discoveryServices } from "./discovery-services.js";
import { nameAndRevision } from "./world-fixture.js";
import { XdsServer } from "./xds-server.js";

/** How long an answer may take; far above what it needs, so that nothing depends on speed. */
const PATIENCE_MS = 10_000;

export interface Served {
  readonly xds: XdsServer;
  readonly port: number;
  close(): void;
}

/** An xDS server on a free port of this machine. */
export async function serveXds(): Promise<Served> {
  const xds = new XdsServer({ clock: systemClock, logger: { info: () => undefined, warn: () => undefined } });
  const server = new Server();
  xds.addTo(server);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  return {
    xds,
    port,
    close: () => {
      xds.close();
      server.forceShutdown();
    },
  };
}

/** One response, the same for both protocols. */
export interface Received {
  readonly typeUrl: ResourceType;
  readonly version: string;
  readonly nonce: string;
  readonly identifier: string;
  /** `name@revision`, in the order of the response. */
  readonly resources: readonly string[];
  /** Delta only. */
  readonly removed: readonly string[];
}

type Body = { readonly [key: string]: unknown };

/** One stream of one method, driven by hand. Each response is accepted at once, unless `accepts` is false. */
export class DiscoveryStream {
  readonly received: Received[] = [];
  /** Code and message of the end. */
  readonly ended: Promise<string>;
  accepts = true;
  readonly #method: DiscoveryMethod;
  readonly #call: ClientDuplexStream<Buffer, Buffer>;
  readonly #client: Client;
  /** SotW repeats the names of a type in each request. */
  readonly #names = new Map<string, readonly string[]>();
  readonly #nodeId: string;
  #isFirst = true;
  #taken = 0;
  readonly #waiters: ((response: Received) => void)[] = [];

  /** @param nodeId empty for a client that does not say who it is */
  constructor(port: number, method: DiscoveryMethod, nodeId = "client-1") {
    this.#method = method;
    this.#nodeId = nodeId;
    this.#client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      "grpc.use_local_subchannel_pool": 1,
    });
    const raw = (bytes: Buffer): Buffer => bytes;
    this.#call = this.#client.makeBidiStreamRequest(pathOf(method), raw, raw);
    this.#call.on("data", (bytes: Buffer) => this.#receive(bytes));
    this.ended = new Promise((resolve) => {
      this.#call.on("error", (error: Error & { code?: number }) => resolve(`${error.code} ${error.message}`));
      this.#call.on("end", () => resolve("end"));
    });
  }

  get isDelta(): boolean {
    return this.#method.protocol === "delta";
  }

  /** Sends a request as it is; the first one of a stream gets the node. */
  send(request: DeepPartial<DeltaDiscoveryRequest> | DeepPartial<DiscoveryRequest>): void {
    const node = this.#isFirst && this.#nodeId !== "" ? { node: { id: this.#nodeId } } : {};
    this.#isFirst = false;
    const body: Body = { ...request, ...node };
    this.#call.write(
      this.isDelta
        ? Buffer.from(DeltaDiscoveryRequest.encode(DeltaDiscoveryRequest.fromPartial(body as object)).finish())
        : Buffer.from(DiscoveryRequest.encode(DiscoveryRequest.fromPartial(body as object)).finish()),
    );
  }

  sendRaw(bytes: Buffer): void {
    this.#call.write(bytes);
  }

  /** Asks for all of a type, as a first request does. */
  askForAll(typeUrl: ResourceType): void {
    this.send({ typeUrl: this.#typeUrlOf(typeUrl) });
  }

  subscribe(typeUrl: ResourceType, names: readonly string[]): void {
    if (this.isDelta) this.send({ typeUrl: this.#typeUrlOf(typeUrl), resourceNamesSubscribe: [...names] });
    else this.setNames(typeUrl, [...new Set([...(this.#names.get(typeUrl) ?? []), ...names])]);
  }

  unsubscribe(typeUrl: ResourceType, names: readonly string[]): void {
    if (this.isDelta) this.send({ typeUrl: this.#typeUrlOf(typeUrl), resourceNamesUnsubscribe: [...names] });
    else
      this.setNames(
        typeUrl,
        (this.#names.get(typeUrl) ?? []).filter((name) => !names.includes(name)),
      );
  }

  /** The whole list of a SotW request, with version and nonce of the last response. */
  setNames(typeUrl: ResourceType, resourceNames: readonly string[]): void {
    this.#names.set(typeUrl, resourceNames);
    this.send({ ...this.#lastSeen(typeUrl), resourceNames: [...resourceNames] });
  }

  ack(typeUrl: ResourceType): void {
    this.send({ ...this.#lastSeen(typeUrl), ...this.#namesOf(typeUrl) });
  }

  /** Refuses the last response: SotW keeps the version before. */
  nack(typeUrl: ResourceType, message: string, acceptedVersion = ""): void {
    const version = this.isDelta ? {} : { versionInfo: acceptedVersion };
    this.send({ ...this.#lastSeen(typeUrl), ...version, ...this.#namesOf(typeUrl), errorDetail: { code: 3, message } });
  }

  /**
   * Waits for the next response that was not waited for yet.
   * @throws Error when none comes
   */
  async next(): Promise<Received> {
    const index = this.#taken;
    this.#taken += 1;
    const here = this.received[index];
    if (here !== undefined) return here;
    return new Promise((resolve, reject) => {
      const seen = this.received.map(({ typeUrl, resources }) => `${typeUrl} ${resources}`);
      const giveUp = setTimeout(() => reject(new Error(`no response after ${JSON.stringify(seen)}`)), PATIENCE_MS);
      this.#waiters.push((response) => {
        clearTimeout(giveUp);
        resolve(response);
      });
    });
  }

  /** Waits until a resource comes, and returns everything that came before it and was not waited for yet, and it. */
  async until(resource: string): Promise<readonly Received[]> {
    const seen: Received[] = [];
    for (;;) {
      const response = await this.next();
      seen.push(response);
      if (response.resources.includes(resource)) return seen;
    }
  }

  close(): void {
    this.#call.on("error", () => undefined);
    this.#call.cancel();
    this.#client.close();
  }

  /** The method implies the type, so a per-type stream leaves it out. */
  #typeUrlOf(typeUrl: ResourceType): string {
    return this.#method.typeUrl === undefined ? typeUrl : "";
  }

  #lastSeen(typeUrl: ResourceType): Body {
    const last = this.received.findLast((response) => response.typeUrl === typeUrl);
    const version = this.isDelta ? {} : { versionInfo: last?.version ?? "" };
    return { typeUrl: this.#typeUrlOf(typeUrl), responseNonce: last?.nonce ?? "", ...version };
  }

  #namesOf(typeUrl: ResourceType): Body {
    return this.isDelta ? {} : { resourceNames: [...(this.#names.get(typeUrl) ?? [])] };
  }

  #receive(bytes: Buffer): void {
    const response = this.isDelta ? readDelta(bytes) : readSotw(bytes);
    this.received.push(response);
    this.#waiters.shift()?.(response);
    if (this.accepts) this.ack(response.typeUrl);
  }
}

function pathOf({ protocol, typeUrl }: DiscoveryMethod): string {
  for (const { definition, methods } of discoveryServices()) {
    for (const [key, method] of Object.entries(methods)) {
      const path = definition[key]?.path;
      if (method.protocol === protocol && method.typeUrl === typeUrl && path !== undefined) return path;
    }
  }
  throw new Error(`no such method: ${protocol} ${typeUrl}`);
}

function readDelta(bytes: Buffer): Received {
  const { typeUrl, nonce, systemVersionInfo, resources, removedResources, controlPlane } =
    DeltaDiscoveryResponse.decode(bytes);
  const type = served(typeUrl);
  return {
    typeUrl: type,
    version: systemVersionInfo,
    nonce,
    identifier: controlPlane?.identifier ?? "",
    resources: resources.map(({ resource }) => nameAndRevision(type, resource?.value ?? Buffer.alloc(0))),
    removed: removedResources,
  };
}

function readSotw(bytes: Buffer): Received {
  const { typeUrl, nonce, versionInfo, resources, controlPlane } = DiscoveryResponse.decode(bytes);
  const type = served(typeUrl);
  for (const resource of resources) {
    if (resource.typeUrl !== type) throw new Error(`a ${resource.typeUrl} in a response of ${type}`);
  }
  return {
    typeUrl: type,
    version: versionInfo,
    nonce,
    identifier: controlPlane?.identifier ?? "",
    resources: resources.map(({ value }) => nameAndRevision(type, value)),
    removed: [],
  };
}

function served(typeUrl: string): ResourceType {
  if (!isResourceType(typeUrl)) throw new Error(`a response of the unknown type ${typeUrl}`);
  return typeUrl;
}
