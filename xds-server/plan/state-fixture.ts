import {
  Alias,
  type DeepPartial,
  Gateway,
  Model,
  ModelVersion,
  Replica,
  ReplicaState,
  Stage,
  Tenant,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { Finding, RegistryState, Revisioned } from "../registry/state.js";

/** What a test wants the registry to hold, in few words. */
export interface StateFixture {
  readonly models?: readonly DeepPartial<Model>[];
  /** `ranker:41` and its stage; the default signature is one FP32 in, one out. */
  readonly versions?: Readonly<Record<string, Stage>>;
  readonly serving?: Readonly<Record<string, DeepPartial<ModelVersion>["serving"]>>;
  readonly aliases?: readonly DeepPartial<Alias>[];
  readonly tenants?: readonly DeepPartial<Tenant>[];
  /** `ranker:41` and the addresses of its ready replicas; `tls 127.0.0.1:19000` takes mutual TLS. */
  readonly ready?: Readonly<Record<string, readonly string[]>>;
  readonly gateways?: readonly DeepPartial<Gateway>[];
  readonly findings?: readonly Finding[];
}

export const { STAGE_REGISTERED, STAGE_STAGING, STAGE_PRODUCTION, STAGE_ARCHIVED } = Stage;

const DEFAULT_SERVING = {
  inputs: [{ name: "features", datatype: "FP32", shape: [-1n, 4n] }],
  outputs: [{ name: "score", datatype: "FP32", shape: [-1n, 1n] }],
};

/** A registry state for tests, with defaults where a test does not care. */
export function stateOf(fixture: StateFixture): RegistryState {
  const versions = Object.keys(fixture.versions ?? {}).map((reference) => {
    const [model, version] = split(reference);
    const serving = fixture.serving?.[reference] ?? DEFAULT_SERVING;
    return ModelVersion.fromPartial({ model, version, serving: serving as object });
  });
  const replicas = Object.entries(fixture.ready ?? {}).flatMap(([reference, addresses]) => {
    const [model, version] = split(reference);
    return addresses.map((address, index) =>
      Replica.fromPartial({
        model,
        version,
        id: `${model}-${version}-${index}`,
        address: address.replace("tls ", ""),
        tls: address.startsWith("tls "),
        state: ReplicaState.REPLICA_STATE_READY,
      }),
    );
  });
  return {
    revision: 1n,
    models: keyed((fixture.models ?? []).map(modelOf), (model) => model.name),
    versions: keyed(versions, (version) => `${version.model}:${version.version}`),
    stages: new Map(Object.entries(fixture.versions ?? {})),
    aliases: keyed((fixture.aliases ?? []).map(aliasOf), (alias) => `${alias.model}@${alias.alias}`),
    tenants: keyed(
      (fixture.tenants ?? []).map((tenant) => Tenant.fromPartial(tenant as object)),
      (tenant) => tenant.name,
    ),
    replicas: keyed(replicas, (replica) => replica.id),
    gateways: keyed(
      (fixture.gateways ?? []).map((gateway) => Gateway.fromPartial(gateway as object)),
      (gateway) => gateway.name,
    ),
    findings: fixture.findings ?? [],
  };
}

/** The fixture of the common cases: `ranker` with a stable, a canary and a shadow version, and `ranker-lite` to fall back on. */
export function rankerFixture(): StateFixture {
  return {
    models: [
      { name: "ranker", slo: { deadlineMs: 2_000 }, allowedTenants: ["*"] },
      { name: "ranker-lite", slo: { deadlineMs: 2_000 }, allowedTenants: ["*"] },
    ],
    versions: {
      "ranker:41": STAGE_PRODUCTION,
      "ranker:42": STAGE_STAGING,
      "ranker:43": STAGE_STAGING,
      "ranker-lite:1": STAGE_PRODUCTION,
    },
    aliases: [
      {
        model: "ranker",
        alias: "prod",
        split: [
          { version: 41n, weight: 95 },
          { version: 42n, weight: 5 },
        ],
        fallback: ["ranker-lite:1"],
        shadow: { version: 43n },
      },
      { model: "ranker-lite", alias: "prod", split: [{ version: 1n, weight: 100 }] },
    ],
    tenants: [{ name: "acme", keys: [{ id: "k1", sha256: Buffer.alloc(32, 7) }], models: ["*"] }],
    ready: {
      "ranker:41": ["127.0.0.1:19000", "127.0.0.1:19010"],
      "ranker:42": ["127.0.0.1:19020"],
      "ranker:43": ["127.0.0.1:19030"],
      "ranker-lite:1": ["127.0.0.1:19040"],
    },
    gateways: [{ name: "default", httpAddress: "127.0.0.1", httpPort: 8080 }],
  };
}

/** Ports of 127.0.0.1 for a `rankerFixture` that is really served. */
export interface RankerPorts {
  readonly http: number;
  /** The two replicas of ranker 41. */
  readonly stable: number;
  readonly stable2: number;
  readonly canary: number;
  readonly shadow: number;
  readonly lite: number;
}

/** `rankerFixture` on given ports. */
export function rankerOn(ports: RankerPorts): StateFixture {
  const at = (port: number): string => `127.0.0.1:${port}`;
  return {
    ...rankerFixture(),
    ready: {
      "ranker:41": [at(ports.stable), at(ports.stable2)],
      "ranker:42": [at(ports.canary)],
      "ranker:43": [at(ports.shadow)],
      "ranker-lite:1": [at(ports.lite)],
    },
    gateways: [{ name: "default", httpAddress: "127.0.0.1", httpPort: ports.http }],
  };
}

/** The same state with other weights of `ranker@prod`; a version with weight 0 stays in the record. */
export function withWeights(fixture: StateFixture, stable: number, canary: number): StateFixture {
  const [prod, ...others] = fixture.aliases ?? [];
  const split = [
    { version: 41n, weight: stable },
    { version: 42n, weight: canary },
  ];
  return { ...fixture, aliases: [{ ...prod, split }, ...others] };
}

/** The same state with one more model, served at an address. */
export function withEcho(fixture: StateFixture, address: string): StateFixture {
  return {
    ...fixture,
    models: [...(fixture.models ?? []), { name: "echo", slo: { deadlineMs: 2_000 }, allowedTenants: ["*"] }],
    versions: { ...fixture.versions, "echo:1": STAGE_PRODUCTION },
    aliases: [...(fixture.aliases ?? []), { model: "echo", alias: "prod", split: [{ version: 1n, weight: 1 }] }],
    ready: { ...fixture.ready, "echo:1": [address] },
  };
}

function modelOf(model: DeepPartial<Model>): Model {
  return Model.fromPartial(model as object);
}

function aliasOf(alias: DeepPartial<Alias>): Alias {
  return Alias.fromPartial(alias as object);
}

function split(reference: string): [string, bigint] {
  const at = reference.lastIndexOf(":");
  return [reference.slice(0, at), BigInt(reference.slice(at + 1))];
}

function keyed<T>(values: readonly T[], keyOf: (value: T) => string): Map<string, Revisioned<T>> {
  return new Map(values.map((value) => [keyOf(value), { value, modRevision: 1n }]));
}
