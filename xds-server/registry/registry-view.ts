import {
  type Alias,
  type Gateway,
  type Model,
  type ModelVersion,
  type Replica,
  Stage,
  type StageEvent,
  type Tenant,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { LayeredMap } from "../platform/layered-map.js";
import { type Reconciled, uniqueReplicas, withOwnKeys } from "./cross-record-rules.js";
import { parseKey, type RecordKey } from "./keys.js";
import { parseRecord, type RegistryRecord } from "./records.js";
import type { Finding, RegistryState, Revisioned } from "./state.js";
import type { Listing, StoreItem, WatchBatch, WatchEvent } from "./store.js";

/** A valid record with both its revisions. */
export interface Held<T> extends Revisioned<T> {
  readonly createRevision: bigint;
}

/** What is known of one key of the store, readable or not. */
interface Entry {
  readonly modRevision: bigint;
  /** Undefined for a key of no known kind. */
  readonly key: RecordKey | undefined;
  readonly findings: readonly Finding[];
}

/** The latest stage event of a version. `event` is undefined when its record is unreadable. */
export interface StageHead {
  readonly seq: bigint;
  readonly event: StageEvent | undefined;
}

/**
 * Turns a store's items and changes into registry states. Work per change is small: only the touched record is parsed, and
 * a state shares all untouched records and maps with the one before, so that later stages see at once what changed.
 */
export class RegistryView {
  readonly #entries = new Map<string, Entry>();
  readonly #models = new Map<string, Held<Model>>();
  readonly #versions = new Map<string, Held<ModelVersion>>();
  readonly #aliases = new Map<string, Held<Alias>>();
  readonly #tenants = new Map<string, Held<Tenant>>();
  readonly #gateways = new Map<string, Held<Gateway>>();
  /** By store key, because two keys may claim one replica id. */
  readonly #replicas = new Map<string, Held<Replica>>();
  /** By replica id, then by store key. */
  readonly #claims = new Map<string, Map<string, Held<Replica>>>();
  /** What is wrong with replica ids that two keys claim. */
  readonly #contested = new Map<string, readonly Finding[]>();
  readonly #chains = new Map<string, Map<bigint, StageEvent | undefined>>();
  readonly #stages = new Map<string, Stage>();
  /** Keys with findings, so that a healthy registry costs nothing. */
  readonly #troubled = new Set<string>();
  /** Keys of the state's maps whose records may be others than in the state that was built last. */
  readonly #touched = newTouched();
  #revision = 0n;
  #state: BuiltState = emptyState();
  #tenantFindings: readonly Finding[] = [];
  #isStale = false;

  /** The registry at the latest revision that was applied. */
  get state(): RegistryState {
    if (this.#isStale) this.#state = this.#build();
    this.#isStale = false;
    return this.#state;
  }

  get revision(): bigint {
    return this.#revision;
  }

  /** Takes over a whole listing, as the difference to what is known, so that nothing vanishes in between. */
  load(listing: Listing): void {
    const listed = new Set(listing.items.map((item) => item.key));
    const events: WatchEvent[] = [];
    for (const key of this.#entries.keys()) if (!listed.has(key)) events.push({ kind: "delete", key });
    for (const item of listing.items) {
      if (this.#entries.get(item.key)?.modRevision !== item.modRevision) events.push({ kind: "put", item });
    }
    this.apply({ revision: listing.revision, events });
  }

  apply(batch: WatchBatch): void {
    for (const event of batch.events) {
      if (event.kind === "put") this.#put(event.item);
      else this.#delete(event.key);
    }
    this.#revision = batch.revision;
    this.#isStale = true;
  }

  /** Revision of the last write to a store key, readable or not; 0 when there is none. */
  modRevisionOf(storeKey: string): bigint {
    return this.#entries.get(storeKey)?.modRevision ?? 0n;
  }

  stageHead(reference: string): StageHead | undefined {
    const chain = this.#chains.get(reference);
    if (chain === undefined) return undefined;
    const seq = [...chain.keys()].reduce((head, next) => (next > head ? next : head), 0n);
    return { seq, event: chain.get(seq) };
  }

  /** Store keys of valid replica records that hold for a given one. */
  replicaKeys(matches: (replica: Replica) => boolean): string[] {
    return [...this.#replicas].filter(([, { value }]) => matches(value)).map(([key]) => key);
  }

  #put(item: StoreItem): void {
    this.#forget(item.key);
    const parsedKey = parseKey(item.key);
    const { modRevision, createRevision } = item;
    if (!parsedKey.ok) {
      const findings = parsedKey.isReserved ? [] : [finding("warning", item.key, parsedKey.problem)];
      this.#remember(item.key, { modRevision, key: undefined, findings });
      return;
    }
    const { key } = parsedKey;
    const { record, errors, warnings } = parseRecord(key, item.value);
    const findings = [
      ...errors.map((message) => finding("error", item.key, message)),
      ...warnings.map((message) => finding("warning", item.key, message)),
    ];
    this.#remember(item.key, { modRevision, key, findings });
    this.#touch(key);
    if (key.kind === "stage") {
      this.#setStage(key.model, key.version, key.seq, record?.kind === "stage" ? record.value : undefined);
    } else if (record !== undefined) this.#hold(item.key, record, { modRevision, createRevision });
  }

  #hold(storeKey: string, record: RegistryRecord, revisions: { modRevision: bigint; createRevision: bigint }): void {
    switch (record.kind) {
      case "model":
        this.#models.set(record.value.name, { value: record.value, ...revisions });
        return;
      case "version":
        this.#versions.set(referenceOf(record.value), { value: record.value, ...revisions });
        return;
      case "alias":
        this.#aliases.set(`${record.value.model}@${record.value.alias}`, { value: record.value, ...revisions });
        return;
      case "tenant":
        this.#tenants.set(record.value.name, { value: record.value, ...revisions });
        return;
      case "gateway":
        this.#gateways.set(record.value.name, { value: record.value, ...revisions });
        return;
      case "replica":
        this.#claim(storeKey, { value: record.value, ...revisions });
        return;
      case "stage":
    }
  }

  #claim(storeKey: string, held: Held<Replica>): void {
    const { id } = held.value;
    this.#replicas.set(storeKey, held);
    this.#claims.set(id, (this.#claims.get(id) ?? new Map()).set(storeKey, held));
    this.#touched.replica.add(id);
  }

  #unclaim(storeKey: string): void {
    const id = this.#replicas.get(storeKey)?.value.id;
    if (id === undefined) return;
    this.#replicas.delete(storeKey);
    this.#claims.get(id)?.delete(storeKey);
    if (this.#claims.get(id)?.size === 0) this.#claims.delete(id);
    this.#touched.replica.add(id);
  }

  #delete(storeKey: string): void {
    const key = this.#entries.get(storeKey)?.key;
    this.#forget(storeKey);
    if (key?.kind === "stage") {
      const reference = referenceOf(key);
      const chain = this.#chains.get(reference);
      chain?.delete(key.seq);
      if (chain?.size === 0) this.#chains.delete(reference);
      this.#updateStage(reference);
    }
    if (key !== undefined) this.#touch(key);
  }

  #remember(storeKey: string, entry: Entry): void {
    this.#entries.set(storeKey, entry);
    if (entry.findings.length > 0) this.#troubled.add(storeKey);
  }

  /** Drops what was known of a key; of stage events only the entry, because their chain says more. */
  #forget(storeKey: string): void {
    const key = this.#entries.get(storeKey)?.key;
    this.#entries.delete(storeKey);
    this.#troubled.delete(storeKey);
    switch (key?.kind) {
      case "model":
        this.#models.delete(key.model);
        return;
      case "version":
        this.#versions.delete(referenceOf(key));
        return;
      case "alias":
        this.#aliases.delete(`${key.model}@${key.alias}`);
        return;
      case "tenant":
        this.#tenants.delete(key.tenant);
        return;
      case "gateway":
        this.#gateways.delete(key.gateway);
        return;
      case "replica":
        this.#unclaim(storeKey);
        return;
      default:
    }
  }

  #touch(key: RecordKey): void {
    switch (key.kind) {
      case "model":
        this.#touched.model.add(key.model);
        return;
      case "version":
        this.#touched.version.add(referenceOf(key));
        return;
      case "stage":
        this.#touched.stage.add(referenceOf(key));
        return;
      case "alias":
        this.#touched.alias.add(`${key.model}@${key.alias}`);
        return;
      case "tenant":
        this.#touched.tenant.add(key.tenant);
        return;
      case "gateway":
        this.#touched.gateway.add(key.gateway);
        return;
      case "replica":
      // A record says itself which id it claims.
    }
  }

  #setStage(model: string, version: bigint, seq: bigint, event: StageEvent | undefined): void {
    const reference = referenceOf({ model, version });
    const chain = this.#chains.get(reference) ?? new Map<bigint, StageEvent | undefined>();
    chain.set(seq, event);
    this.#chains.set(reference, chain);
    this.#updateStage(reference);
  }

  /** An unreadable head is no stage at all: an older event might allow what the newest one took away. */
  #updateStage(reference: string): void {
    const stage = this.stageHead(reference)?.event?.stage ?? Stage.STAGE_UNSPECIFIED;
    if (stage === Stage.STAGE_UNSPECIFIED) this.#stages.delete(reference);
    else this.#stages.set(reference, stage);
  }

  #build(): BuiltState {
    const before = this.#state;
    const touched = this.#touched;
    const tenants = touched.tenant.size === 0 ? undefined : withOwnKeys(this.#tenants);
    this.#tenantFindings = tenants?.findings ?? this.#tenantFindings;
    const state: BuiltState = {
      revision: this.#revision,
      models: before.models.with(current(touched.model, this.#models)),
      versions: before.versions.with(current(touched.version, this.#versions)),
      stages: before.stages.with(current(touched.stage, this.#stages)),
      aliases: before.aliases.with(current(touched.alias, this.#aliases)),
      tenants: tenants?.records ?? before.tenants,
      replicas: before.replicas.with([...touched.replica].map((id) => [id, this.#settle(id).records.get(id)])),
      gateways: before.gateways.with(current(touched.gateway, this.#gateways)),
      findings: [...this.#recordFindings(), ...this.#tenantFindings, ...this.#contestedFindings()],
    };
    for (const keys of Object.values(touched)) keys.clear();
    return state;
  }

  /** Decides which record has a replica id now. */
  #settle(id: string): Reconciled<Replica> {
    const settled = uniqueReplicas(this.#claims.get(id) ?? new Map());
    if (settled.findings.length > 0) this.#contested.set(id, settled.findings);
    else this.#contested.delete(id);
    return settled;
  }

  #contestedFindings(): Finding[] {
    return [...this.#contested].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, findings]) => findings);
  }

  #recordFindings(): Finding[] {
    return [...this.#troubled].sort().flatMap((key) => this.#entries.get(key)?.findings ?? []);
  }
}

/** `ranker:41` */
export function referenceOf({ model, version }: { readonly model: string; readonly version: bigint }): string {
  return `${model}:${version}`;
}

function finding(severity: Finding["severity"], subject: string, message: string): Finding {
  return { severity, subject, message };
}

/** A state whose maps can be copied with changes. */
type BuiltState = RegistryState & {
  readonly [K in Exclude<
    keyof RegistryState,
    "revision" | "findings" | "tenants"
  >]: RegistryState[K] extends ReadonlyMap<string, infer V> ? LayeredMap<V> : never;
};

function emptyState(): BuiltState {
  const none = LayeredMap.over(new Map<string, never>());
  return {
    revision: 0n,
    models: none,
    versions: none,
    stages: none,
    aliases: none,
    tenants: none,
    replicas: none,
    gateways: none,
    findings: [],
  };
}

type Touched = { readonly [kind in RecordKey["kind"]]: Set<string> };

function newTouched(): Touched {
  return {
    model: new Set(),
    version: new Set(),
    stage: new Set(),
    alias: new Set(),
    tenant: new Set(),
    gateway: new Set(),
    replica: new Set(),
  };
}

/** Entries as they are now; undefined for those that are gone. */
function current<V>(keys: Iterable<string>, map: ReadonlyMap<string, V>): [string, V | undefined][] {
  return [...keys].map((key) => [key, map.get(key)]);
}
