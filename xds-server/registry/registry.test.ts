import {
  Alias,
  Replica,
  ReplicaState,
  Stage,
  StageEvent,
  Tenant,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { REGISTRY_PREFIX } from "./keys.js";
import { Registry } from "./registry.js";
import { modelRecord, TestRegistry, versionRecords } from "./registry-fixture.js";
import { RegistryView } from "./registry-view.js";
import type { Listing, Store, Watch, WatchListener } from "./store.js";

let clock: ManualClock;
let test: TestRegistry;

beforeEach(async () => {
  clock = new ManualClock();
  test = await TestRegistry.open(clock);
});

afterEach(() => test.close());

const key = (path: string): string => `${REGISTRY_PREFIX}${path}`;

/** A write of any text, past the registry. */
async function write(path: string, value: string): Promise<bigint> {
  return (await test.store.txn([], [{ kind: "put", key: key(path), value }])).revision;
}

describe("Registry", () => {
  it("shows a write when its promise is kept, and tells of it once", async () => {
    const seen: bigint[] = [];
    const stop = test.registry.onChange(() => seen.push(test.registry.state.revision));
    await test.put(modelRecord("ranker"), ...versionRecords("ranker", 41n));
    expect([...test.registry.state.models.keys(), ...test.registry.state.versions.keys()]).toEqual([
      "ranker",
      "ranker:41",
    ]);
    stop();
    await test.put(modelRecord("echo"));
    expect(seen).toEqual([1n]);
  });

  it("shows what is there after a comparison failed", async () => {
    await write("models/ranker", '{"name":"ranker"}');
    const compare = { key: key("models/ranker"), target: "mod_revision", equals: 0n } as const;
    const put = { kind: "put", key: key("models/ranker"), value: "{}" } as const;
    expect(await test.registry.commit([compare], [put])).toBeUndefined();
    expect(test.registry.modRevisionOf(key("models/ranker"))).toBe(1n);
  });

  it("follows writers that it does not know", async () => {
    await write("models/ranker", '{"name":"ranker","owner":"somebody"}');
    await expect.poll(() => test.registry.state.models.get("ranker")?.value.owner).toBe("somebody");
  });
});

/** A store whose watch can be cut, as a network does. */
class CuttableStore implements Store {
  listener: WatchListener | undefined;
  isUp = true;
  readonly #inner: Store;

  constructor(inner: Store) {
    this.#inner = inner;
  }

  async list(prefix: string): Promise<Listing> {
    if (!this.isUp) throw new Error("connection refused");
    return this.#inner.list(prefix);
  }

  txn: Store["txn"] = (compares, operations) => this.#inner.txn(compares, operations);
  grantLease: Store["grantLease"] = (ttlMs) => this.#inner.grantLease(ttlMs);
  close: Store["close"] = () => this.#inner.close();

  watch(_prefix: string, _from: bigint, listener: WatchListener): Watch {
    this.listener = listener;
    return { close: () => undefined };
  }
}

describe("a watch that cannot go on", () => {
  it("is replaced by a listing, deletes included, and nothing vanishes in between", async () => {
    await write("models/old", '{"name":"old"}');
    await write("models/kept", '{"name":"kept"}');
    const store = new CuttableStore(test.store);
    const registry = await Registry.open({ store, clock, onReadFailure: () => undefined });
    const seen: string[] = [];
    registry.onChange(() => seen.push([...registry.state.models.keys()].sort().join()));
    await test.store.txn([], [{ kind: "delete", key: key("models/old") }]);
    await write("models/new", '{"name":"new"}');
    store.listener?.compacted();
    await expect.poll(() => seen).toEqual(["kept,new"]);
    registry.close();
  });

  it("keeps the state while the store cannot be read, and tries again", async () => {
    await write("models/ranker", '{"name":"ranker"}');
    const store = new CuttableStore(test.store);
    const problems: string[] = [];
    const registry = await Registry.open({ store, clock, onReadFailure: (problem) => problems.push(problem) });
    await write("models/echo", '{"name":"echo"}');
    store.isUp = false;
    store.listener?.compacted();
    await expect.poll(() => problems).toEqual(["connection refused"]);
    expect([...registry.state.models.keys()]).toEqual(["ranker"]);
    store.isUp = true;
    clock.advance(1_000);
    await expect.poll(() => [...registry.state.models.keys()].sort()).toEqual(["echo", "ranker"]);
    registry.close();
  });
});

describe("the registry's state", () => {
  it("leaves a bad record out with a finding, and keeps the others", async () => {
    await write("models/ranker", '{"name":"ranker"}');
    await write("models/broken", "not json");
    await write("models/wrong", '{"name":"ranker"}');
    await write("models/future", '{"name":"future","colour":"red"}');
    await write("nonsense", "{}");
    await write("rollouts/ranker/1", "later parts of the mesh");
    await test.put(modelRecord("last"));
    const { models, findings } = test.registry.state;
    expect([...models.keys()].sort()).toEqual(["future", "last", "ranker"]);
    expect(findings.map(({ severity, subject }) => `${severity} ${subject.slice(REGISTRY_PREFIX.length)}`)).toEqual([
      "error models/broken",
      "warning models/future",
      "error models/wrong",
      "warning nonsense",
    ]);
  });

  it("takes the last stage event, and no stage at all when that one cannot be read", async () => {
    await test.put(modelRecord("ranker"), ...versionRecords("ranker", 41n));
    const event = StageEvent.fromPartial({ model: "ranker", version: 41n, seq: 2n, stage: Stage.STAGE_PRODUCTION });
    await test.put({ kind: "stage", value: event });
    expect(test.registry.state.stages.get("ranker:41")).toBe(Stage.STAGE_PRODUCTION);
    await write("stages/ranker/41/00000003", "{");
    await test.put(modelRecord("other"));
    expect(test.registry.state.stages.has("ranker:41")).toBe(false);
    expect(test.registry.stageHead("ranker:41")).toEqual({ seq: 3n, event: undefined });
  });

  it("gives a key to the older of two tenants that hold it", async () => {
    const keys = [{ id: "k", sha256: Buffer.alloc(32, 7) }];
    await test.put({ kind: "tenant", value: Tenant.fromPartial({ name: "zoe", keys }) });
    await test.put({ kind: "tenant", value: Tenant.fromPartial({ name: "adam", keys }) });
    expect([...test.registry.state.tenants.keys()]).toEqual(["zoe"]);
    expect(test.registry.state.findings[0]?.message).toContain("keys holds a key of tenant zoe too");
  });

  it("takes the later of two replicas with one id", async () => {
    const replica = (version: bigint) =>
      Replica.fromPartial({
        model: "ranker",
        version,
        id: "r1",
        address: "127.0.0.1:19000",
        state: ReplicaState.REPLICA_STATE_READY,
      });
    await test.put({ kind: "replica", value: replica(42n) });
    await test.put({ kind: "replica", value: replica(41n) });
    expect(test.registry.state.replicas.get("r1")?.value.version).toBe(41n);
    expect(test.registry.replicaKeys(({ id }) => id === "r1")).toHaveLength(2);
  });

  it("is the same however it came to be: by single changes, or by one listing", async () => {
    const path = fc.constantFrom(
      "models/a",
      "models/b",
      "aliases/a/prod",
      "stages/a/1/00000001",
      "stages/a/1/00000002",
      "x",
    );
    const alias = Alias.toJSON(Alias.fromPartial({ model: "a", alias: "prod", split: [{ version: 1n, weight: 1 }] }));
    const value = fc.constantFrom(
      '{"name":"a"}',
      '{"name":"b"}',
      "{",
      JSON.stringify(alias),
      '{"model":"a","version":"1","seq":"1","stage":"STAGE_STAGING"}',
      '{"model":"a","version":"1","seq":"2","stage":"STAGE_ARCHIVED"}',
      undefined,
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(path, value), { maxLength: 12 }), async (changes) => {
        for (const [at, text] of changes) {
          const operation =
            text === undefined
              ? ({ kind: "delete", key: key(at) } as const)
              : ({ kind: "put", key: key(at), value: text } as const);
          await test.registry.commit([], [operation]);
        }
        const fresh = new RegistryView();
        fresh.load(await test.store.list(REGISTRY_PREFIX));
        const plain = (map: ReadonlyMap<string, unknown>): unknown[] => [...map].sort(([a], [b]) => (a < b ? -1 : 1));
        const { state } = test.registry;
        for (const field of ["models", "aliases", "stages"] as const) {
          expect(plain(state[field])).toEqual(plain(fresh.state[field]));
        }
        expect(state.findings).toEqual(fresh.state.findings);
      }),
      { seed: 7, numRuns: 60 },
    );
  });
});
