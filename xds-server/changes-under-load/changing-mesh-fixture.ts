import { ReplicaState, Stage } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { AdminClient } from "../admin/admin-client.js";
import { type RunningEnvoy, startEnvoy } from "../xds/envoy-fixture.js";
import { pause } from "../xds/mesh-fixture.js";
import { freePorts } from "../xds/ports-fixture.js";
import { AnsweringVersions, Callers } from "./callers-fixture.js";
import { HOSTILE_LABELS } from "./hostile-clients-fixture.js";
import { type MeshPorts, type ResponseListener, RunningPlane } from "./running-plane-fixture.js";
import { ServingBatcher } from "./serving-batcher-fixture.js";

/** A number below its argument, from a seed. */
export type Random = (below: number) => number;

/** How long anything may take that is waited for; far above what it needs. */
const PATIENCE_MS = 60_000;
/** Far above what a call needs, so that none is late on a busy machine. */
const DEADLINE_MS = 30_000;
const NODES: ReadonlySet<string> = new Set(["gateway-1", "shop-1"]);
const SHOP_LABELS = { app: "shop" };
const SERVING = {
  inputs: [{ name: "features", datatype: "FP32", shape: [-1n, 4n] }],
  outputs: [{ name: "score", datatype: "FP32", shape: [-1n, 1n] }],
};

/** What a model's alias `prod` says. */
export interface AliasSays {
  readonly weights: ReadonlyMap<number, number>;
  readonly fallback: readonly string[];
  readonly shadow: number | undefined;
}

/** A model as the registry has it. */
export interface LiveModel {
  readonly name: string;
  /** Batchers that say that they are ready, by version; every version that is not archived has an entry. */
  readonly ready: Map<number, ServingBatcher[]>;
  /** Versions that are not in production yet. */
  readonly staging: Set<number>;
  /** Number of the version that was registered last. */
  newest: number;
  alias: AliasSays;
}

/** What of the default gateway's record changes. */
export interface GatewaySays {
  readonly maxRequestBytes: bigint;
  readonly runtime: Readonly<Record<string, string>>;
}

/**
 * A real control plane on its embedded store, two real Envoys of different groups and protocols, callers at both, and pretended
 * batchers that come and go. All is written by the admin API, but for deletions, which it does not offer.
 */
export class ChangingMesh {
  readonly models = new Map<string, LiveModel>();
  /** Models that the sidecar's group learns of. */
  readonly shopModels = new Set<string>();
  readonly gateway: RunningEnvoy;
  readonly shop: RunningEnvoy;
  readonly atGateway: Callers;
  readonly atShop: Callers;
  readonly #answering = new AnsweringVersions();
  readonly #drained: ServingBatcher[] = [];
  readonly #batchers = new Set<ServingBatcher>();
  readonly #misrouted: string[] = [];
  readonly #plane: RunningPlane;
  #serial = 0;

  private constructor(binary: string, ports: MeshPorts, key: string, plane: RunningPlane, random: Random) {
    this.#plane = plane;
    const common = { binary, adsPort: ports.ads };
    const gateway = { adminPort: ports.gatewayAdmin, nodeId: "gateway-1", apiType: "DELTA_GRPC" } as const;
    const shop = { adminPort: ports.shopAdmin, nodeId: "shop-1", role: "sidecar", apiType: "GRPC" } as const;
    this.gateway = startEnvoy({ ...common, ...gateway, runtimeLayer: "mesh" });
    this.shop = startEnvoy({ ...common, ...shop, labels: SHOP_LABELS });
    this.atGateway = new Callers({ name: "gateway", port: ports.http, key }, this.#answering, random, 4);
    this.atShop = new Callers({ name: "shop", port: ports.shop, key }, this.#answering, random, 2);
  }

  /** Starts all of it, without any model. */
  static async open(
    binary: string,
    random: Random,
    onResponse: ResponseListener = () => undefined,
  ): Promise<ChangingMesh> {
    const [ads = 0, http = 0, shop = 0, gatewayAdmin = 0, shopAdmin = 0] = await freePorts(5);
    const ports = { ads, http, shop, gatewayAdmin, shopAdmin };
    const plane = new RunningPlane(ports, onResponse);
    await plane.start();
    const { apiKey } = await plane.admin.createTenant({ tenant: { name: "acme", models: ["*"] } });
    const mesh = new ChangingMesh(binary, ports, apiKey, plane, random);
    await mesh.putGateway({ maxRequestBytes: 0n, runtime: {} });
    await mesh.#putShop();
    const hostile = { name: "lab", httpAddress: "127.0.0.1", httpPort: 1, labels: HOSTILE_LABELS };
    await plane.admin.putGateway({ gateway: hostile });
    await mesh.untilConnected();
    await mesh.settle();
    return mesh;
  }

  get adsAddress(): string {
    return this.#plane.running.adsAddress;
  }

  get admin(): AdminClient {
    return this.#plane.admin;
  }

  /** What went wrong so far, in words. */
  get failures(): readonly string[] {
    for (const batcher of this.#batchers) this.#misrouted.push(...batcher.takeMisrouted());
    return [...this.atGateway.failures, ...this.atShop.failures, ...this.#misrouted];
  }

  untilConnected(): Promise<void> {
    const isConnected = (): boolean => this.#plane.nodesOf(NODES) === NODES.size;
    return waitUntil(isConnected, () => `both Envoys connect\n${this.gateway.log()}\n${this.shop.log()}`);
  }

  /** Both Envoys have taken all that was written. Batchers that were drained before leave then. */
  async settle(): Promise<void> {
    const drained = this.#drained.splice(0);
    const { settled, unsettled } = await this.#plane.running.whenSettled(PATIENCE_MS, NODES);
    if (!settled) throw new Error(`not taken within ${PATIENCE_MS} ms: ${unsettled.join(", ")}`);
    await Promise.all([this.atGateway.flush(), this.atShop.flush()]);
    this.#answering.settle();
    for (const batcher of drained) {
      await batcher.leave();
      this.#misrouted.push(...batcher.takeMisrouted());
      this.#batchers.delete(batcher);
    }
  }

  /** Writes a model with its versions in production and their batchers. It may be called after the next `settle`. */
  async addModel(batchersOfVersions: readonly number[]): Promise<LiveModel> {
    this.#serial += 1;
    const name = `m${this.#serial}`;
    await this.admin.putModel({ model: { name, allowedTenants: ["*"], slo: { deadlineMs: DEADLINE_MS } } });
    const alias = { weights: new Map([[1, 1]]), fallback: [], shadow: undefined };
    const model: LiveModel = { name, ready: new Map(), staging: new Set(), newest: 0, alias };
    this.models.set(name, model);
    for (const count of batchersOfVersions) {
      const version = await this.addVersion(model);
      await this.promote(model, version);
      for (let started = 0; started < count; started += 1) await this.addBatcher(model, version);
    }
    await this.setAlias(model, alias);
    return model;
  }

  /** Deletes every record of a model that nobody calls, in one transaction. */
  async removeModel(model: LiveModel): Promise<void> {
    this.models.delete(model.name);
    this.#follow();
    for (const version of model.ready.keys()) await this.#drainAll(model, version);
    await this.#plane.deleteModel(model.name);
  }

  /** Registers the next version, in staging. */
  async addVersion(model: LiveModel): Promise<number> {
    model.newest += 1;
    const version = model.newest;
    model.ready.set(version, []);
    model.staging.add(version);
    await this.admin.registerVersion({ version: { model: model.name, version: BigInt(version), serving: SERVING } });
    await this.#moveStage(model, version, Stage.STAGE_STAGING);
    return version;
  }

  async promote(model: LiveModel, version: number): Promise<void> {
    await this.#moveStage(model, version, Stage.STAGE_PRODUCTION);
    model.staging.delete(version);
  }

  /** Archives a version that nothing names; its batchers leave. */
  async archive(model: LiveModel, version: number): Promise<void> {
    await this.#drainAll(model, version);
    model.ready.delete(version);
    model.staging.delete(version);
    await this.#moveStage(model, version, Stage.STAGE_ARCHIVED);
  }

  /** Starts a batcher; resolves when the registry has it as ready. */
  async addBatcher(model: LiveModel, version: number): Promise<void> {
    this.#serial += 1;
    const batcher = await ServingBatcher.start(model.name, version, this.adsAddress, this.#serial);
    this.#batchers.add(batcher);
    model.ready.get(version)?.push(batcher);
    this.#follow();
    await this.#untilRegistered(batcher, ReplicaState.REPLICA_STATE_READY);
  }

  /** A batcher takes no more calls, and leaves with the next `settle`; resolves when the registry has it as draining. */
  async drainBatcher(model: LiveModel, version: number): Promise<void> {
    const batcher = model.ready.get(version)?.shift();
    if (batcher === undefined) throw new Error(`${model.name}:${version} has no batcher`);
    this.#follow();
    batcher.drain();
    await this.#untilRegistered(batcher, ReplicaState.REPLICA_STATE_DRAINING);
    this.#drained.push(batcher);
  }

  async setAlias(model: LiveModel, alias: AliasSays): Promise<void> {
    model.alias = alias;
    this.#follow();
    const { weights, fallback, shadow } = alias;
    const split = [...weights].map(([version, weight]) => ({ version: BigInt(version), weight }));
    const mirrored = shadow === undefined ? {} : { shadow: { version: BigInt(shadow), sample: 1 } };
    const record = { model: model.name, alias: "prod", split, fallback: [...fallback], ...mirrored };
    await this.admin.setAlias({ alias: record, expectedRevision: -1n });
  }

  async putGateway({ maxRequestBytes, runtime }: GatewaySays): Promise<void> {
    const { http: httpPort } = this.#plane.ports;
    const gateway = { name: "default", httpAddress: "127.0.0.1", httpPort, maxRequestBytes, runtime: { ...runtime } };
    await this.admin.putGateway({ gateway });
  }

  /** The sidecar's group learns of a model, or of it no more. */
  async scopeShop(model: string, isIn: boolean): Promise<void> {
    if (isIn) this.shopModels.add(model);
    else this.shopModels.delete(model);
    await this.#putShop();
  }

  async stopControlPlane(): Promise<void> {
    await this.#plane.stop();
  }

  /** A fresh process at the same port, with the same store. */
  async startControlPlane(): Promise<void> {
    await this.#plane.start();
  }

  async close(): Promise<void> {
    await Promise.all([this.atGateway.stop(), this.atShop.stop()]);
    await Promise.all([this.gateway.stop(), this.shop.stop()]);
    for (const batcher of this.#batchers) batcher.close();
    await this.#plane.close();
  }

  /** Versions of which a call of the model may be answered, after what is written now. */
  answeringOf(model: LiveModel): ReadonlySet<string> {
    const ofSplit = [...model.alias.weights]
      .filter(([version, weight]) => weight > 0 && (model.ready.get(version)?.length ?? 0) > 0)
      .map(([version]) => `${model.name}:${version}`);
    if (ofSplit.length > 0) return new Set(ofSplit);
    return new Set(model.alias.fallback.filter((reference) => this.#isReady(reference)).slice(0, 1));
  }

  #isReady(reference: string): boolean {
    const [name = "", version] = reference.split(":");
    return (this.models.get(name)?.ready.get(Number(version))?.length ?? 0) > 0;
  }

  #follow(): void {
    const models = [...this.models.values()];
    this.#answering.become(new Map(models.map((model) => [model.name, this.answeringOf(model)])));
  }

  async #drainAll(model: LiveModel, version: number): Promise<void> {
    while ((model.ready.get(version)?.length ?? 0) > 0) await this.drainBatcher(model, version);
  }

  async #untilRegistered({ address, model, version }: ServingBatcher, wanted: ReplicaState): Promise<void> {
    const isSo = async (): Promise<boolean> =>
      (await this.admin.getStatus()).replicas.some(
        (replica) => replica.address === address && replica.state === wanted,
      );
    await waitUntil(isSo, () => `the batcher of ${model}:${version} at ${address} is registered in state ${wanted}`);
  }

  async #moveStage({ name: model }: LiveModel, version: number, stage: Stage): Promise<void> {
    await this.admin.moveStage({ model, version: BigInt(version), stage, reason: "test" });
  }

  async #putShop(): Promise<void> {
    const { shop: httpPort } = this.#plane.ports;
    // A record without models would be one for all of them.
    const models = ["none", ...this.shopModels];
    const gateway = { name: "shop", role: "sidecar", httpAddress: "127.0.0.1", httpPort, labels: SHOP_LABELS, models };
    await this.admin.putGateway({ gateway });
  }
}

async function waitUntil(isTrue: () => boolean | Promise<boolean>, what: () => string): Promise<void> {
  const endMs = performance.now() + PATIENCE_MS;
  while (!(await isTrue())) {
    if (performance.now() > endMs) throw new Error(`waited in vain until ${what()}`);
    await pause(5);
  }
}
