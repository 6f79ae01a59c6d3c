import type {
  Alias,
  Gateway,
  Model,
  ModelVersion,
  Replica,
  Stage,
  Tenant,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";

/** Something wrong in a record or in the mesh, told to people; it never blocks the other records. */
export interface Finding {
  readonly severity: "error" | "warning";
  /** Registry key or reference that it is about, e.g. `ranker@prod`. */
  readonly subject: string;
  /** Names the field, the value's problem and what to do. */
  readonly message: string;
}

/** An alias with the revision that a compare-and-set must name. */
export interface Revisioned<T> {
  readonly value: T;
  /** Store revision of the last write to this record. */
  readonly modRevision: bigint;
}

/**
 * Everything the registry holds at one revision, validated record by record. A record that does not validate is absent
 * here and present in `findings`. Immutable: a change makes a new state.
 */
export interface RegistryState {
  readonly revision: bigint;
  /** By model name. */
  readonly models: ReadonlyMap<string, Revisioned<Model>>;
  /** By `ranker:41`. */
  readonly versions: ReadonlyMap<string, Revisioned<ModelVersion>>;
  /** Head of each version's stage events, by `ranker:41`. */
  readonly stages: ReadonlyMap<string, Stage>;
  /** By `ranker@prod`. */
  readonly aliases: ReadonlyMap<string, Revisioned<Alias>>;
  /** By tenant name. */
  readonly tenants: ReadonlyMap<string, Revisioned<Tenant>>;
  /** By replica id. */
  readonly replicas: ReadonlyMap<string, Revisioned<Replica>>;
  /** By gateway name. */
  readonly gateways: ReadonlyMap<string, Revisioned<Gateway>>;
  readonly findings: readonly Finding[];
}
