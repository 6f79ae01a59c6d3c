import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { MeshPlan } from "../plan/mesh-plan.js";
import { planMesh } from "../plan/plan.js";
import { STAGE_PRODUCTION, type StateFixture, stateOf } from "../plan/state-fixture.js";
import { secretPairOf } from "../secrets/pair-fixture.js";
import { EXTENSION_TYPE } from "../snapshot/resource-types.js";
import { buildSnapshot, inconsistencies, type Snapshot } from "../snapshot/snapshot.js";
import { translate } from "../translate/translate-fixture.js";
import { selfSignedCertificate } from "./certificate-fixture.js";
import { EnvoyModel } from "./envoy-model-fixture.js";

/** One model as the property draws it: which versions exist, are in the split and are ready, and what it falls back on. */
interface DrawnModel {
  readonly isPresent: boolean;
  readonly weights: readonly number[];
  readonly ready: readonly boolean[];
  readonly fallback: number;
}

/** The same sequences in every run; change it, and raise the counts, to search further. */
const SEED = 20_261_130;

const NAMES = ["a", "b", "c"];
const VERSIONS = [1, 2];

const drawnModel: fc.Arbitrary<DrawnModel> = fc.record({
  isPresent: fc.boolean(),
  weights: fc.array(fc.nat({ max: 3 }), { minLength: VERSIONS.length, maxLength: VERSIONS.length }),
  ready: fc.array(fc.boolean(), { minLength: VERSIONS.length, maxLength: VERSIONS.length }),
  fallback: fc.nat({ max: NAMES.length }),
});
/** One of `CERTIFICATES`, or past them: then there is no TLS listener. */
const drawnCertificate = fc.nat({ max: 2 });
const drawnState = fc.record({
  models: fc.array(drawnModel, { minLength: NAMES.length, maxLength: NAMES.length }),
  certificate: drawnCertificate,
});
const CERTIFICATES = [1, 2].map((serial) => secretPairOf(selfSignedCertificate({ serial })));
const TLS = { tlsPort: 8443, tlsCertificateFile: "/tls.crt", tlsPrivateKeyFile: "/tls.key" };

interface DrawnState {
  readonly models: readonly DrawnModel[];
  readonly certificate: number;
}

function fixtureOf({ models, certificate }: DrawnState): StateFixture {
  const present = NAMES.flatMap((name, index) => {
    const model = models[index];
    return model?.isPresent ? [{ name, index, ...model }] : [];
  });
  const references = present.flatMap(({ name }) => VERSIONS.map((version) => `${name}:${version}`));
  return {
    models: present.map(({ name }) => ({ name, slo: { deadlineMs: 1_000 } })),
    versions: Object.fromEntries(references.map((reference) => [reference, STAGE_PRODUCTION])),
    aliases: present.map(({ name, weights, fallback }) => ({
      model: name,
      alias: "prod",
      split: VERSIONS.map((version, index) => ({ version: BigInt(version), weight: weights[index] ?? 0 })),
      fallback: NAMES[fallback] === undefined || NAMES[fallback] === name ? [] : [`${NAMES[fallback]}:1`],
    })),
    ready: Object.fromEntries(
      present.flatMap(({ name, index, ready }) =>
        VERSIONS.map((version) => [
          `${name}:${version}`,
          ready[version - 1] ? [`127.0.0.1:${20_000 + index * 10 + version}`] : [],
        ]),
      ),
    ),
    gateways: [
      { name: "default", httpAddress: "127.0.0.1", httpPort: 8080, ...(CERTIFICATES[certificate] ? TLS : {}) },
    ],
  };
}

/** Plans and snapshots of states that follow each other, and what each gate configuration lets pass. */
class History {
  readonly #gates = new Map<string, readonly string[]>();
  #plan: MeshPlan | undefined;
  #snapshot: Snapshot | undefined;

  next(state: DrawnState): { plan: MeshPlan; snapshot: Snapshot } {
    const plan = planMesh(stateOf(fixtureOf(state)), this.#plan);
    const names = plan.gate.models.map(({ name }) => name);
    const gate = { module: Buffer.from("\0asm"), config: Buffer.from(names.join()) };
    const pair = CERTIFICATES[state.certificate];
    const secrets = pair === undefined ? new Map() : new Map([["default", pair]]);
    const resources = translate(plan, { gate, transcoderDescriptor: Buffer.from("descriptors"), secrets });
    const snapshot = buildSnapshot(resources, this.#snapshot);
    this.#gates.set(snapshot.byType[EXTENSION_TYPE].get("gate")?.version ?? "", names);
    this.#plan = plan;
    this.#snapshot = snapshot;
    return { plan, snapshot };
  }

  modelsOfGate(version: string): readonly string[] {
    return this.#gates.get(version) ?? [];
  }
}

describe("any sequence of states", () => {
  it("gives consistent snapshots, weights above 0, and groups with endpoints only", () => {
    fc.assert(
      fc.property(fc.array(drawnState, { minLength: 1, maxLength: 4 }), (states) => {
        const history = new History();
        for (const state of states) {
          const { plan, snapshot } = history.next(state);
          expect(inconsistencies(snapshot)).toEqual([]);
          const served = new Set(plan.clusters.filter(({ endpoints }) => endpoints.length > 0).map(({ name }) => name));
          for (const { aliases, pinned } of plan.models) {
            for (const group of [...aliases.map(({ route }) => route), ...pinned].flatMap(({ groups }) => groups)) {
              expect(group.clusters.length).toBeGreaterThan(0);
              for (const { cluster, weight } of group.clusters) {
                expect(weight).toBeGreaterThan(0);
                expect(served).toContain(cluster);
              }
            }
          }
        }
      }),
      { numRuns: 100, seed: SEED },
    );
  });

  it.each(["delta", "sotw"] as const)(
    "reaches an honest Envoy whole by %s, in any interleaving and over broken streams, without a moment that would fail a call or a wait that expires",
    (protocol) => {
      const steps = fc.array(fc.nat(), { maxLength: 12 });
      const change = fc.record({ state: drawnState, breaks: fc.boolean(), steps });
      fc.assert(
        fc.property(fc.array(change, { minLength: 1, maxLength: 5 }), (changes) => {
          const history = new History();
          const envoy = new EnvoyModel(protocol, (version) => history.modelsOfGate(version));
          let last: Snapshot | undefined;
          for (const { state, breaks, steps: choices } of changes) {
            last = history.next(state).snapshot;
            if (breaks) envoy.reconnect();
            envoy.publish(last);
            for (const choice of choices) envoy.step(choice);
          }
          for (let choice = 0; envoy.step(choice); choice += 1) {
            if (choice > 10_000) throw new Error("Envoy and the server never come to rest");
          }
          expect(envoy.harm).toEqual([]);
          expect(last === undefined ? ["no state"] : envoy.differences(last)).toEqual([]);
          expect(envoy.session.unsettledTypes()).toEqual([]);
        }),
        { numRuns: 150, seed: SEED },
      );
    },
  );
});
