import { Client, type ClientDuplexStream, credentials } from "@grpc/grpc-js";
import { DeltaDiscoveryRequest } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { PretendedEnvoy, SILENCE } from "../control-plane-fixture.js";
import { CLUSTER_TYPE, DELIVERY_ORDER } from "../snapshot/resource-types.js";
import { ADS_PATHS } from "../xds/stream-crowd-fixture.js";

/** Group of the clients that misbehave; a record with this label must exist. */
export const HOSTILE_LABELS: Readonly<Record<string, string>> = { lab: "hostile" };

const EVERY_MS = 20;
const NAMES = 5_000;

/** Clients that refuse everything, never answer, never read, or send what makes no sense, until they are closed. */
export class HostileClients {
  readonly #refusing: PretendedEnvoy;
  readonly #silent: PretendedEnvoy;
  readonly #client: Client;
  readonly #unread: ClientDuplexStream<Buffer, Buffer>;
  readonly #timer: NodeJS.Timeout;
  /** Streams with nonsense that were opened. */
  nonsenseCount = 0;

  /** @param random a number below its argument */
  constructor(adsAddress: string, random: (below: number) => number) {
    const labels = HOSTILE_LABELS;
    const names = ["gate"];
    this.#refusing = new PretendedEnvoy(adsAddress, names, { nodeId: "refusing", labels, refusal: () => "never" });
    this.#silent = new PretendedEnvoy(adsAddress, names, { nodeId: "silent", labels, refusal: () => SILENCE });
    this.#client = new Client(adsAddress, credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
    this.#unread = this.#open();
    this.#unread.pause();
    // Each of its requests would be answered, so that a server without a bound would keep all that it does not read.
    for (const typeUrl of DELIVERY_ORDER) this.#unread.write(ask(typeUrl, "unread", []));
    this.#timer = setInterval(() => this.#sendNonsense(random), EVERY_MS);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#refusing.close();
    this.#silent.close();
    this.#unread.cancel();
    this.#client.close();
  }

  #sendNonsense(random: (below: number) => number): void {
    this.nonsenseCount += 1;
    const call = this.#open();
    call.on("data", () => undefined);
    const nodeId = `nonsense-${random(10)}`;
    const kinds = [
      () => [Buffer.from(Array.from({ length: 64 }, () => random(256)))],
      () => [ask("type.googleapis.com/made.up.Type", nodeId, ["x"])],
      () => [ask(CLUSTER_TYPE, "", [])],
      () => [ask(CLUSTER_TYPE, nodeId, []), ask(CLUSTER_TYPE, nodeId, [], "made-up nonce")],
      () => [
        ask(
          DELIVERY_ORDER[random(DELIVERY_ORDER.length)] ?? "",
          nodeId,
          Array.from({ length: NAMES }, (_, index) => `made-up-${index}`),
        ),
      ],
    ];
    for (const bytes of kinds[random(kinds.length)]?.() ?? []) call.write(bytes);
    setTimeout(() => call.cancel(), 5 * EVERY_MS);
  }

  #open(): ClientDuplexStream<Buffer, Buffer> {
    const raw = (bytes: Buffer): Buffer => bytes;
    const call = this.#client.makeBidiStreamRequest(ADS_PATHS.delta, raw, raw);
    call.on("error", () => undefined);
    return call;
  }
}

function ask(typeUrl: string, nodeId: string, names: readonly string[], nonce = ""): Buffer {
  const node = nodeId === "" ? undefined : { id: nodeId, cluster: "gateway", metadata: { labels: HOSTILE_LABELS } };
  const request = { typeUrl, node, resourceNamesSubscribe: [...names], responseNonce: nonce };
  return Buffer.from(DeltaDiscoveryRequest.encode(DeltaDiscoveryRequest.fromPartial(request as object)).finish());
}
