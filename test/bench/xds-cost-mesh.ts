import { readFileSync } from "node:fs";
import {
  Alias,
  Gateway,
  Model,
  ModelVersion,
  Replica,
  ReplicaState,
  Stage,
  StageEvent,
  Tenant,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { restDescriptorPath } from "@servemesh/proto/sources";
import { loadGateModule } from "@servemesh/wasm-filters";
import {
  createXdsPipeline,
  formatKey,
  formatRecord,
  gateToolsOf,
  type RegistryRecord,
  RegistryView,
  systemClock,
  type XdsPipeline,
} from "@servemesh/xds-server";

const VERSIONS = [1n, 2n];
const ENDPOINTS_PER_VERSION = 2;

/**
 * A control plane in this process with a registry of some size, from the text of a record to the snapshot that is served.
 * Only the store and the debouncing before it are left out.
 */
export class SizedMesh {
  readonly models: number;
  readonly pipeline: XdsPipeline;
  readonly #view = new RegistryView();
  #revision = 1n;

  constructor(models: number) {
    this.models = models;
    this.pipeline = createXdsPipeline({
      clock: systemClock,
      logger: { info: () => undefined, warn: () => undefined },
      gate: gateToolsOf(loadGateModule().bytes),
      transcoderDescriptor: readFileSync(restDescriptorPath),
    });
    const records = [...sharedRecords(), ...Array.from({ length: models }, (_, index) => modelRecords(index)).flat()];
    this.#view.load({ revision: 1n, items: records.map((record) => storeItem(record, 1n)) });
    this.#publish();
  }

  /** Writes the weights of the middle model's alias: a percentage for version 1, the rest for version 2. */
  setWeight(percent: number): void {
    this.#write(aliasRecord(nameOf(this.models >> 1), percent));
  }

  /** Makes one replica of the middle model ready or lets it drain; its version has another one. */
  setReady(isReady: boolean): void {
    this.#write(replicaRecord(this.models >> 1, 2n, 0, isReady));
  }

  #write(record: RegistryRecord): void {
    this.#revision += 1n;
    const item = storeItem(record, this.#revision);
    this.#view.apply({ revision: this.#revision, events: [{ kind: "put", item }] });
    this.#publish();
  }

  #publish(): void {
    const [problem] = this.pipeline.apply(this.#view.state, {}).filter(({ severity }) => severity === "error");
    if (problem !== undefined) throw new Error(`the mesh is not sound: ${problem.subject} ${problem.message}`);
  }
}

function nameOf(index: number): string {
  return `model-${String(index).padStart(5, "0")}`;
}

function sharedRecords(): RegistryRecord[] {
  return [
    { kind: "gateway", value: Gateway.fromPartial({ name: "default", httpAddress: "127.0.0.1", httpPort: 8080 }) },
    {
      kind: "tenant",
      value: Tenant.fromPartial({ name: "acme", keys: [{ id: "k1", sha256: Buffer.alloc(32, 7) }], models: ["*"] }),
    },
  ];
}

function modelRecords(index: number): RegistryRecord[] {
  const model = nameOf(index);
  const serving = {
    inputs: [{ name: "features", datatype: "FP32", shape: [-1n, 4n] }],
    outputs: [{ name: "score", datatype: "FP32", shape: [-1n, 1n] }],
  };
  return [
    { kind: "model", value: Model.fromPartial({ name: model, slo: { deadlineMs: 2_000 }, allowedTenants: ["*"] }) },
    ...VERSIONS.flatMap((version): RegistryRecord[] => [
      { kind: "version", value: ModelVersion.fromPartial({ model, version, serving }) },
      { kind: "stage", value: StageEvent.fromPartial({ model, version, seq: 1n, stage: Stage.STAGE_PRODUCTION }) },
      ...Array.from({ length: ENDPOINTS_PER_VERSION }, (_, replica) => replicaRecord(index, version, replica, true)),
    ]),
    aliasRecord(model, 90),
  ];
}

function aliasRecord(model: string, percent: number): RegistryRecord {
  const split = [
    { version: 1n, weight: percent },
    { version: 2n, weight: 100 - percent },
  ];
  return { kind: "alias", value: Alias.fromPartial({ model, alias: "prod", split }) };
}

/** Each replica has an address of its own, in 10.0.0.0/8. */
function replicaRecord(index: number, version: bigint, replica: number, isReady: boolean): RegistryRecord {
  const model = nameOf(index);
  const host = (index * VERSIONS.length + Number(version) - 1) * ENDPOINTS_PER_VERSION + replica;
  const value = Replica.fromPartial({
    model,
    version,
    id: `r-${host}`,
    address: `10.${host >> 16}.${(host >> 8) & 255}.${host & 255}:9000`,
    state: isReady ? ReplicaState.REPLICA_STATE_READY : ReplicaState.REPLICA_STATE_DRAINING,
  });
  return { kind: "replica", value };
}

function storeItem(record: RegistryRecord, modRevision: bigint) {
  return { key: keyOf(record), value: formatRecord(record), createRevision: 1n, modRevision };
}

function keyOf(record: RegistryRecord): string {
  switch (record.kind) {
    case "model":
      return formatKey({ kind: "model", model: record.value.name });
    case "tenant":
      return formatKey({ kind: "tenant", tenant: record.value.name });
    case "gateway":
      return formatKey({ kind: "gateway", gateway: record.value.name });
    case "version":
      return formatKey({ kind: "version", model: record.value.model, version: record.value.version });
    case "stage":
      return formatKey({ kind: "stage", ...record.value });
    case "alias":
      return formatKey({ kind: "alias", model: record.value.model, alias: record.value.alias });
    case "replica":
      return formatKey({ kind: "replica", ...record.value });
  }
}
