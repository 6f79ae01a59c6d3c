/** What the gate knows about models and tenants; everything else it gets with the request. */
export interface GateConfig {
  readonly models: readonly GateModel[];
  readonly tenants: readonly GateTenant[];
}

export interface GateModel {
  /** `[a-z0-9][a-z0-9._-]{0,62}`. */
  readonly name: string;
  /** Alias of a bare model name. It may be missing in `aliases`: then bare names are answered with model_not_found. */
  readonly defaultAlias: string;
  /** Largest budget of a call in ms, 1 to 600,000. */
  readonly deadlineMs: number;
  /** Request header whose value is copied for sticky splits, in lower case; empty for none. */
  readonly stickyHeader: string;
  /** Tenants that may call; `*` is all, an empty list is nobody. Names of unknown tenants are ignored. */
  readonly allowedTenants: readonly string[];
  readonly aliases: readonly GateAlias[];
  /** Versions that may be pinned. */
  readonly versions: readonly bigint[];
}

export interface GateAlias {
  readonly name: string;
  /** Own limit in ms; the smaller of this and the model's holds. */
  readonly deadlineMs?: number;
  /** Cluster that gets a copy of every call of this alias. */
  readonly shadowCluster?: string;
}

export interface GateTenant {
  /** `[a-z0-9][a-z0-9._-]{0,62}`. */
  readonly name: string;
  /** SHA-256 of each API key, 32 bytes. */
  readonly keyDigests: readonly Uint8Array[];
  readonly priority: "interactive" | "batch";
  /** Models that the tenant may call; `*` is all, an empty list is none. Names of unknown models are ignored. */
  readonly models: readonly string[];
}

/** What a gate's configuration may hold; beyond it `compileGateConfig` refuses. */
export const GATE_LIMITS = {
  models: 10_000,
  tenants: 10_000,
  aliasesPerModel: 64,
  versionsPerModel: 1_000,
  keysPerTenant: 16,
  /** Entries of all allow lists together, `*` not counted. */
  allowListEntries: 1_000_000,
  stickyHeaderChars: 64,
  shadowClusterChars: 200,
  blobBytes: 16 * 1024 * 1024,
} as const;

/** A configuration that cannot be compiled. The message names the field, the problem and the remedy. */
export class GateConfigError extends Error {
  override readonly name = "GateConfigError";
}
