import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ClientDuplexStream, credentials } from "@grpc/grpc-js";
import { AggregatedDiscoveryServiceClient } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/ads.js";
import {
  DeltaDiscoveryRequest,
  type DeltaDiscoveryResponse,
} from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import {
  type ConnectRequest,
  type ConnectResponse,
  ReplicaServiceClient,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/replica.js";
import { ReplicaState, Stage } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { pino } from "pino";
import { type AdminClient, createAdminClient } from "./admin/admin-client.js";
import {
  type ControlPlane,
  type ControlPlaneDeps,
  type ControlPlaneOptions,
  createControlPlane,
} from "./control-plane.js";
import {
  CLUSTER_TYPE,
  DELIVERY_ORDER,
  ENDPOINT_TYPE,
  VIRTUAL_HOST_TYPE,
  WILDCARD_TYPES,
} from "./snapshot/resource-types.js";

/** Folders and free ports for one control plane of a test. */
export class ControlPlaneFixture {
  readonly folder = mkdtempSync(join(tmpdir(), "servemesh-plane-"));
  readonly options: ControlPlaneOptions = {
    store: join(this.folder, "store"),
    tokenFile: join(this.folder, "token"),
    ads: { host: "127.0.0.1", port: 0 },
    admin: { host: "127.0.0.1", port: 0 },
    health: { host: "127.0.0.1", port: 0 },
  };
  readonly #cleanUps: (() => void | Promise<void>)[] = [];

  async start(options: Partial<ControlPlaneOptions> = {}, deps: Partial<ControlPlaneDeps> = {}): Promise<ControlPlane> {
    const plane = await createControlPlane(
      { ...this.options, ...options },
      { logger: pino({ level: "silent" }), ...deps },
    );
    this.#cleanUps.push(() => plane.close());
    return plane;
  }

  admin(plane: ControlPlane): AdminClient {
    const admin = createAdminClient({ address: plane.adminAddress, token: plane.token });
    this.#cleanUps.push(() => admin.close());
    return admin;
  }

  envoy(plane: ControlPlane, names: readonly string[], behaviour: EnvoyBehaviour = {}): PretendedEnvoy {
    const envoy = new PretendedEnvoy(plane.adsAddress, names, behaviour);
    this.#cleanUps.push(() => envoy.close());
    return envoy;
  }

  /** A batcher that is ready at once. */
  batcher(plane: ControlPlane, model: string, version: bigint, port: number): PretendedReplica {
    const batcher = new PretendedReplica(plane.adsAddress, model, version, port);
    this.#cleanUps.push(() => batcher.close());
    return batcher;
  }

  /** Runs before what was started earlier is closed. */
  onCleanUp(cleanUp: () => void): void {
    this.#cleanUps.push(cleanUp);
  }

  async cleanUp(): Promise<void> {
    for (const cleanUp of this.#cleanUps.splice(0).reverse()) await cleanUp();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export interface EnvoyBehaviour {
  /** Its node id; `envoy-1` by default. */
  readonly nodeId?: string;
  /** What its node says under `labels`, which decides on its group. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Words with which it refuses a response; undefined accepts it, SILENCE leaves it without an answer. */
  readonly refusal?: (response: DeltaDiscoveryResponse) => string | typeof SILENCE | undefined;
}

export const SILENCE = Symbol("no answer");

/** Takes all resources as an Envoy would, and accepts them unless told otherwise. */
export class PretendedEnvoy {
  /** By type and name: the encoded resource. */
  readonly held = new Map<string, string>();
  readonly #client: AggregatedDiscoveryServiceClient;
  readonly #call: ClientDuplexStream<DeltaDiscoveryRequest, DeltaDiscoveryResponse>;
  readonly #endpoints = new Set<string>();
  readonly #behaviour: EnvoyBehaviour;

  /** @param names resources that are asked for by name, besides endpoints: `routes/ranker`, `gate` */
  constructor(address: string, names: readonly string[], behaviour: EnvoyBehaviour = {}) {
    this.#behaviour = behaviour;
    this.#client = new AggregatedDiscoveryServiceClient(address, credentials.createInsecure(), {
      "grpc.max_receive_message_length": -1,
      "grpc.use_local_subchannel_pool": 1,
    });
    this.#call = this.#client.deltaAggregatedResources();
    this.#call.on("error", () => undefined);
    this.#call.on("data", (response: DeltaDiscoveryResponse) => this.#take(response));
    for (const typeUrl of DELIVERY_ORDER) {
      if (WILDCARD_TYPES.has(typeUrl)) this.#ask(typeUrl, []);
      else if (typeUrl !== ENDPOINT_TYPE && typeUrl !== VIRTUAL_HOST_TYPE) this.#ask(typeUrl, names);
    }
  }

  /** Encoded resource as text, in which names and addresses can be found; empty when it is not held. */
  textOf(typeUrl: string, name: string): string {
    return this.held.get(`${typeUrl} ${name}`) ?? "";
  }

  close(): void {
    this.#call.cancel();
    this.#client.close();
  }

  #ask(typeUrl: string, resourceNamesSubscribe: readonly string[]): void {
    const { nodeId = "envoy-1", labels } = this.#behaviour;
    const node = { id: nodeId, cluster: "gateway", ...(labels === undefined ? {} : { metadata: { labels } }) };
    this.#call.write(
      DeltaDiscoveryRequest.fromPartial({ typeUrl, node, resourceNamesSubscribe: [...resourceNamesSubscribe] }),
    );
  }

  #take(response: DeltaDiscoveryResponse): void {
    const { typeUrl, nonce, resources, removedResources } = response;
    const refusal = this.#behaviour.refusal?.(response);
    if (refusal === SILENCE) return;
    if (refusal !== undefined) {
      const errorDetail = { code: 13, message: refusal };
      this.#call.write(DeltaDiscoveryRequest.fromPartial({ typeUrl, responseNonce: nonce, errorDetail }));
      return;
    }
    for (const { name, resource } of resources) {
      this.held.set(`${typeUrl} ${name}`, Buffer.from(resource?.value ?? []).toString("latin1"));
      if (typeUrl === CLUSTER_TYPE && !this.#endpoints.has(name)) {
        this.#endpoints.add(name);
        this.#ask(ENDPOINT_TYPE, [name]);
      }
    }
    for (const name of removedResources) this.held.delete(`${typeUrl} ${name}`);
    this.#call.write(DeltaDiscoveryRequest.fromPartial({ typeUrl, responseNonce: nonce }));
  }
}

/** A batcher as far as the control plane sees one. */
class PretendedReplica {
  readonly #client: ReplicaServiceClient;
  readonly #call: ClientDuplexStream<ConnectRequest, ConnectResponse>;

  constructor(address: string, model: string, version: bigint, port: number) {
    this.#client = new ReplicaServiceClient(address, credentials.createInsecure(), {
      "grpc.use_local_subchannel_pool": 1,
    });
    this.#call = this.#client.connect();
    this.#call.on("error", () => undefined);
    this.#call.on("data", () => undefined);
    const replicaId = `${model}-${version}-${port}`;
    const hello = { replicaId, model, version, address: `127.0.0.1:${port}`, softwareVersion: "test", tls: false };
    this.#call.write({ message: { $case: "hello", value: hello } });
    const state = { state: ReplicaState.REPLICA_STATE_READY, detail: "", loadedDigest: "" };
    this.#call.write({ message: { $case: "state", value: state } });
  }

  close(): void {
    this.#call.cancel();
    this.#client.close();
  }
}

/** `ranker` with version 41 in production and 42 in staging, split 95 to 5, and one tenant and gateway. */
export async function registerRanker(admin: AdminClient): Promise<void> {
  const serving = {
    inputs: [{ name: "features", datatype: "FP32", shape: [-1n, 4n] }],
    outputs: [{ name: "score", datatype: "FP32", shape: [-1n, 1n] }],
  };
  const model = "ranker";
  await admin.putModel({ model: { name: model, allowedTenants: ["*"], slo: { deadlineMs: 2_000 } } });
  for (const version of [41n, 42n]) {
    await admin.registerVersion({ version: { model, version, serving } });
    await admin.moveStage({ model, version, stage: Stage.STAGE_STAGING, reason: "test" });
  }
  await admin.moveStage({ model, version: 41n, stage: Stage.STAGE_PRODUCTION, reason: "test" });
  const split = [
    { version: 41n, weight: 95 },
    { version: 42n, weight: 5 },
  ];
  await admin.setAlias({ alias: { model, alias: "prod", split } });
  await admin.createTenant({ tenant: { name: "acme", models: ["*"] } });
  await admin.putGateway({ gateway: { name: "default", httpAddress: "127.0.0.1", httpPort: 8080 } });
}
