import { type ClientDuplexStream, credentials } from "@grpc/grpc-js";
import {
  type ConnectRequest,
  type ConnectResponse,
  ReplicaServiceClient,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/replica.js";
import { ReplicaState } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { H_VERSION } from "@servemesh/proto/names";
import { PretendedBatcher } from "../xds/batcher-fixture.js";

const RECONNECT_MS = 50;

/** A batcher of one version that answers at once, with its stream to the control plane, which it opens again when it breaks. */
export class ServingBatcher {
  readonly #server = new PretendedBatcher(0);
  readonly #client: ReplicaServiceClient;
  readonly #id: string;
  #state = ReplicaState.REPLICA_STATE_READY;
  #call: ClientDuplexStream<ConnectRequest, ConnectResponse> | undefined;
  #isOver = false;
  #failures: string[] = [];

  private constructor(
    readonly model: string,
    readonly version: number,
    adsAddress: string,
    serial: number,
  ) {
    this.#id = `r-${serial}`;
    this.#client = new ReplicaServiceClient(adsAddress, credentials.createInsecure(), {
      "grpc.use_local_subchannel_pool": 1,
      "grpc.initial_reconnect_backoff_ms": RECONNECT_MS,
      "grpc.max_reconnect_backoff_ms": RECONNECT_MS,
    });
  }

  /** @param serial its number, different from all others' */
  static async start(model: string, version: number, adsAddress: string, serial: number): Promise<ServingBatcher> {
    const batcher = new ServingBatcher(model, version, adsAddress, serial);
    await batcher.#server.listen();
    batcher.#connect();
    return batcher;
  }

  get address(): string {
    return `127.0.0.1:${this.#server.port}`;
  }

  /** Calls that came for another version, in words. */
  takeMisrouted(): readonly string[] {
    const mine = `${this.model}:${this.version}`;
    const others = this.#server.seen.splice(0).filter(({ headers }) => headers[H_VERSION] !== mine);
    this.#failures.push(...others.map(({ headers }) => `${mine} got a call for ${headers[H_VERSION]}`));
    return this.#failures.splice(0);
  }

  /** Says that it takes no more calls; it still answers those that come. */
  drain(): void {
    this.#state = ReplicaState.REPLICA_STATE_DRAINING;
    this.#tell();
  }

  /** Ends in order: what runs is answered, then the port is closed. Nothing may send to it any more. */
  async leave(): Promise<void> {
    this.#isOver = true;
    this.#call?.cancel();
    this.#client.close();
    await this.#server.shutDown();
  }

  close(): void {
    this.#isOver = true;
    this.#call?.cancel();
    this.#client.close();
    this.#server.close();
  }

  #connect(): void {
    if (this.#isOver) return;
    const call = this.#client.connect();
    this.#call = call;
    call.on("data", () => undefined);
    call.on("error", () => undefined);
    call.on("end", () => call.end());
    call.on("status", () => setTimeout(() => this.#connect(), RECONNECT_MS));
    const { model, version } = this;
    const { address } = this;
    const hello = {
      replicaId: this.#id,
      model,
      version: BigInt(version),
      address,
      softwareVersion: "test",
      tls: false,
    };
    call.write({ message: { $case: "hello", value: hello } });
    this.#tell();
  }

  #tell(): void {
    const state = { state: this.#state, detail: "", loadedDigest: "" };
    this.#call?.write({ message: { $case: "state", value: state } });
  }
}
