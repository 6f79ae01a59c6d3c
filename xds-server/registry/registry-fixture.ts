import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Model, ModelVersion, Stage, StageEvent } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { Clock } from "../platform/clock.js";
import { formatKey, type RecordKey } from "./keys.js";
import { LmdbStore } from "./lmdb-store.js";
import { formatRecord, type RegistryRecord } from "./records.js";
import { Registry } from "./registry.js";

/** A registry over a real LMDB file of its own, for tests. */
export class TestRegistry {
  readonly #folder = mkdtempSync(join(tmpdir(), "servemesh-registry-"));
  readonly #clock: Clock;
  #store: LmdbStore;
  #registry: Registry | undefined;

  private constructor(clock: Clock) {
    this.#clock = clock;
    this.#store = new LmdbStore(this.#folder, clock);
  }

  static async open(clock: Clock): Promise<TestRegistry> {
    const test = new TestRegistry(clock);
    test.#registry = await test.#openRegistry();
    return test;
  }

  get registry(): Registry {
    if (this.#registry === undefined) throw new Error("the registry is not open");
    return this.#registry;
  }

  get store(): LmdbStore {
    return this.#store;
  }

  /** What a restart of the process does to the store. */
  async restart(): Promise<void> {
    this.#registry?.close();
    await this.#store.close();
    this.#store = new LmdbStore(this.#folder, this.#clock);
    this.#registry = await this.#openRegistry();
  }

  /** Writes records as they are, past all rules of the admin interface. */
  async put(...records: RegistryRecord[]): Promise<void> {
    await this.registry.commit(
      [],
      records.map((record) => ({ kind: "put", key: formatKey(keyOf(record)), value: formatRecord(record) })),
    );
  }

  async close(): Promise<void> {
    this.#registry?.close();
    await this.#store.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #openRegistry(): Promise<Registry> {
    return Registry.open({
      store: this.#store,
      clock: this.#clock,
      onReadFailure: (problem) => {
        throw new Error(problem);
      },
    });
  }
}

export function modelRecord(name: string, deadlineMs = 2_000): RegistryRecord {
  return { kind: "model", value: Model.fromPartial({ name, slo: { deadlineMs }, allowedTenants: ["*"] }) };
}

/** A version with one FP32 in and one out, and its first stage event. */
export function versionRecords(model: string, version: bigint, artifactDigest = ""): RegistryRecord[] {
  const serving = {
    inputs: [{ name: "features", datatype: "FP32", shape: [-1n, 4n] }],
    outputs: [{ name: "score", datatype: "FP32", shape: [-1n, 1n] }],
  };
  const event = { model, version, seq: 1n, stage: Stage.STAGE_REGISTERED };
  return [
    { kind: "version", value: ModelVersion.fromPartial({ model, version, serving, artifactDigest }) },
    { kind: "stage", value: StageEvent.fromPartial(event) },
  ];
}

function keyOf(record: RegistryRecord): RecordKey {
  switch (record.kind) {
    case "model":
      return { kind: "model", model: record.value.name };
    case "tenant":
      return { kind: "tenant", tenant: record.value.name };
    case "gateway":
      return { kind: "gateway", gateway: record.value.name };
    default:
      return { kind: record.kind, ...record.value } as RecordKey;
  }
}
