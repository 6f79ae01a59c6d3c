import { isDeepStrictEqual } from "node:util";
import {
  Alias,
  Gateway,
  Model,
  ModelVersion,
  Replica,
  ReplicaState,
  Stage,
  Tenant,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { MeshPlan } from "../plan/mesh-plan.js";
import { planMesh } from "../plan/plan.js";
import { STAGE_PRODUCTION, type StateFixture, stateOf } from "../plan/state-fixture.js";
import { LayeredMap } from "../platform/layered-map.js";
import type { Finding, RegistryState, Revisioned } from "../registry/state.js";
import type { MeshResources } from "../translate/translate.js";
import { type Translation, translate } from "../translate/translate-fixture.js";
import { DELIVERY_ORDER } from "./resource-types.js";
import { buildSnapshot, diffType, inconsistencies, type Snapshot } from "./snapshot.js";

/** The same sequences in every run; change it, and raise the counts, to search further. */
const SEED = 20_261_202;
const RUNS = 40;

/** A mesh that serves, so that most changes matter. */
const HEALTHY: StateFixture = {
  models: ["a", "b", "c"].map((name) => ({ name })),
  versions: Object.fromEntries(["a:1", "a:2", "b:1", "b:2", "c:1", "c:2"].map((name) => [name, STAGE_PRODUCTION])),
  aliases: ["a", "b", "c"].map((model) => ({
    model,
    alias: "prod",
    split: [{ version: 1n, weight: 1 }],
    fallback: ["b:2"],
  })),
  ready: { "a:1": ["127.0.0.1:1"], "b:1": ["127.0.0.1:1"], "b:2": ["127.0.0.1:2"], "c:1": ["127.0.0.1:3"] },
  gateways: [{ name: "default", httpPort: 8080 }],
};

/** One write to the registry: a record under a key, or none any more. */
type Change = (state: RegistryState) => RegistryState;

function put<K extends keyof RegistryState, V>(map: K, key: string, value: V | undefined): Change {
  return (state) => {
    const records = LayeredMap.over(state[map] as ReadonlyMap<string, unknown>);
    return { ...state, [map]: records.with([[key, value]]) };
  };
}

function record<T>(value: T): Revisioned<T> {
  return { value, modRevision: 1n };
}

const drawnModel = fc.constantFrom("a", "b", "c");
const drawnVersion = fc.constantFrom(1n, 2n);
const drawnReference = fc.tuple(drawnModel, drawnVersion).map(([model, version]) => `${model}:${version}`);
/** More puts than deletions, so that something is served most of the time. */
const isDeleted = fc.integer({ min: 0, max: 4 }).map((drawn) => drawn === 0);

const modelChange = fc
  .tuple(drawnModel, isDeleted, fc.constantFrom(0, 500, 5_000), fc.constantFrom("", "canary"))
  .map(([name, gone, deadlineMs, defaultAlias]) =>
    put("models", name, gone ? undefined : record(Model.fromPartial({ name, slo: { deadlineMs }, defaultAlias }))),
  );

const versionChange = fc
  .tuple(drawnModel, drawnVersion, isDeleted, fc.constantFrom("x", "x", "x", "y"))
  .map(([model, version, gone, input]) => {
    const serving = { inputs: [{ name: input, datatype: "FP32", shape: [-1n] }] };
    const value = ModelVersion.fromPartial({ model, version, serving });
    return put("versions", `${model}:${version}`, gone ? undefined : record(value));
  });

const stageChange = fc
  .tuple(
    drawnReference,
    fc.constantFrom(Stage.STAGE_PRODUCTION, Stage.STAGE_PRODUCTION, Stage.STAGE_STAGING, Stage.STAGE_ARCHIVED),
    isDeleted,
  )
  .map(([reference, stage, gone]) => put("stages", reference, gone ? undefined : stage));

const aliasChange = fc
  .record({
    model: drawnModel,
    alias: fc.constantFrom("prod", "canary"),
    weights: fc.array(fc.option(fc.constantFrom(0, 1, 20), { nil: undefined, freq: 9 }), {
      minLength: 2,
      maxLength: 2,
    }),
    fallback: fc.uniqueArray(drawnReference, { maxLength: 2 }),
    shadow: fc.option(drawnVersion, { nil: undefined }),
    deadlineMs: fc.constantFrom(0, 100, 60_000),
    gone: isDeleted,
  })
  .map(({ model, alias, weights, fallback, shadow, deadlineMs, gone }) => {
    const split = weights.map((weight, index) => ({
      version: BigInt(index + 1),
      ...(weight === undefined ? {} : { weight }),
    }));
    const rest = shadow === undefined ? {} : { shadow: { version: shadow } };
    const value = Alias.fromPartial({ model, alias, split, fallback, deadlineMs, ...rest });
    return put("aliases", `${model}@${alias}`, gone ? undefined : record(value));
  });

const replicaChange = fc
  .record({
    id: fc.constantFrom("a-1-0", "b-1-0", "b-2-0", "c-1-0", "r5"),
    model: drawnModel,
    version: drawnVersion,
    address: fc.constantFrom("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "localhost:4"),
    state: fc.constantFrom(
      ReplicaState.REPLICA_STATE_READY,
      ReplicaState.REPLICA_STATE_READY,
      ReplicaState.REPLICA_STATE_DRAINING,
    ),
    gone: isDeleted,
  })
  .map(({ gone, ...replica }) => put("replicas", replica.id, gone ? undefined : record(Replica.fromPartial(replica))));

const otherChange = fc.oneof(
  isDeleted.map((gone) =>
    put("tenants", "t", gone ? undefined : record(Tenant.fromPartial({ name: "t", models: ["*"] }))),
  ),
  fc
    .tuple(isDeleted, fc.constantFrom(0n, 1_000_000n), fc.constantFrom("127.0.0.1", "no address"))
    .map(([gone, maxRequestBytes, httpAddress]) => {
      const value = Gateway.fromPartial({ name: "default", httpAddress, httpPort: 8080, maxRequestBytes });
      return put("gateways", "default", gone ? undefined : record(value));
    }),
  fc.subarray(["models/a", "aliases/a/prod", "gateways/default"]).map((subjects): Change => {
    const findings = subjects.map((subject): Finding => ({ severity: "error", subject, message: "is not JSON" }));
    return (state) => ({ ...state, findings });
  }),
);

/** Some records change together, as in one transaction; now and then a stage of ours forgets a resource. */
const drawnStep = fc.record({
  changes: fc.array(fc.oneof(modelChange, versionChange, stageChange, aliasChange, replicaChange, otherChange), {
    maxLength: 6,
  }),
  forgotten: fc
    .tuple(fc.nat({ max: 4 }), fc.constantFrom("model/a/1", "model/b/2", "routes/a"))
    .map(([drawn, name]) => (drawn === 0 ? name : undefined)),
});

function without(resources: MeshResources, name: string | undefined): MeshResources {
  if (name === undefined) return resources;
  return {
    ...resources,
    clusters: resources.clusters.filter((cluster) => cluster.name !== name),
    routes: resources.routes.filter((table) => table.name !== name),
  };
}

function contentsOf(snapshot: Snapshot): unknown {
  return DELIVERY_ORDER.map((type) => [...snapshot.byType[type]]);
}

/** Names and versions of a type after a client took a difference over. */
function applied(from: Snapshot, to: Snapshot): unknown {
  return DELIVERY_ORDER.map((type) => {
    const held = new Map([...from.byType[type]].map(([name, { version }]) => [name, version]));
    const { changed, removed } = diffType(from, to, type);
    for (const { name, version } of changed) held.set(name, version);
    for (const name of removed) held.delete(name);
    return [...held].sort();
  });
}

function versionsOf(snapshot: Snapshot): unknown {
  return DELIVERY_ORDER.map((type) => [...snapshot.byType[type]].map(([name, { version }]) => [name, version]).sort());
}

/** `toStrictEqual` looks at each byte of each buffer, so it only tells what differs once something does. */
function expectSame(now: unknown, anew: unknown): void {
  if (!isDeepStrictEqual(now, anew)) expect(now).toStrictEqual(anew);
}

describe("any sequence of registry changes", () => {
  it("gives the same plan, resources and snapshot whether each change is worked out alone or everything anew", () => {
    let consistent = 0;
    let broken = 0;
    let served = 0;
    let lastGood = 0;
    fc.assert(
      fc.property(fc.array(drawnStep, { minLength: 1, maxLength: 25 }), (steps) => {
        let state = stateOf(HEALTHY);
        let plan: MeshPlan | undefined;
        let translation: Translation | undefined;
        let snapshot: Snapshot | undefined;
        for (const { changes, forgotten } of steps) {
          state = changes.reduce((before, change) => change(before), state);
          // A copy of a plan is unknown, so everything is planned anew from it.
          const anew = planMesh(state, plan === undefined ? undefined : { ...plan });
          plan = planMesh(state, plan);
          expectSame(plan, anew);
          const gate = {
            module: Buffer.from("\0asm"),
            config: Buffer.from(plan.gate.models.map(({ name }) => name).join()),
          };
          const settings = { gate, transcoderDescriptor: Buffer.from("descriptors") };
          const resources: MeshResources = translate(plan, settings, translation);
          expectSame(resources, translate(anew, settings));
          const aliases = plan.models.flatMap((model) => model.aliases);
          served += aliases.filter(({ route }) => route.groups.length > 1).length;
          lastGood += aliases.filter(({ isLastGood }) => isLastGood).length;
          translation = { plan, settings, resources };
          const next: Snapshot = buildSnapshot(without(resources, forgotten), snapshot);
          const whole = buildSnapshot(without(resources, forgotten));
          expectSame(contentsOf(next), contentsOf(whole));
          expectSame(next.typeVersions, whole.typeVersions);
          expectSame(inconsistencies(next), inconsistencies(whole));
          if (inconsistencies(next).length === 0) consistent += 1;
          else broken += 1;
          if (snapshot !== undefined) expectSame(applied(snapshot, next), versionsOf(next));
          snapshot = next;
        }
      }),
      { seed: SEED, numRuns: RUNS },
    );
    // All kinds were really drawn.
    expect(served).toBeGreaterThan(RUNS);
    expect(lastGood).toBeGreaterThan(RUNS);
    expect(consistent).toBeGreaterThan(RUNS);
    expect(broken).toBeGreaterThan(RUNS / 10);
  });
});
