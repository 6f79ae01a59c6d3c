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
import { uniqueReplicas, withOwnKeys } from "./cross-record-rules.js";
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
 * Turns a store's items and changes into registry states. Work per change is small: only the touched record is parsed,
 * and only touched maps are copied, when the state is next asked for.
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
  readonly #chains = new Map<string, Map<bigint, StageEvent | undefined>>();
  readonly #stages = new Map<string, Stage>();
  /** Keys with findings, so that a healthy registry costs nothing. */
  readonly #troubled = new Set<string>();
  readonly #touched = new Set<RecordKey["kind"]>();
  #revision = 0n;
  #state: RegistryState = emptyState();
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
    this.#touched.add(key.kind);
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
        this.#replicas.set(storeKey, { value: record.value, ...revisions });
        return;
      case "stage":
    }
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
    if (key !== undefined) this.#touched.add(key.kind);
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
        this.#replicas.delete(storeKey);
        return;
      default:
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

  #build(): RegistryState {
    const before = this.#state;
    const touched = (kind: RecordKey["kind"]): boolean => this.#touched.has(kind);
    const tenants = withOwnKeys(this.#tenants);
    const replicas = uniqueReplicas(this.#replicas);
    const state: RegistryState = {
      revision: this.#revision,
      models: touched("model") ? new Map(this.#models) : before.models,
      versions: touched("version") ? new Map(this.#versions) : before.versions,
      stages: touched("stage") ? new Map(this.#stages) : before.stages,
      aliases: touched("alias") ? new Map(this.#aliases) : before.aliases,
      tenants: touched("tenant") ? tenants.records : before.tenants,
      replicas: touched("replica") ? replicas.records : before.replicas,
      gateways: touched("gateway") ? new Map(this.#gateways) : before.gateways,
      findings: [...this.#recordFindings(), ...tenants.findings, ...replicas.findings],
    };
    this.#touched.clear();
    return state;
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

function emptyState(): RegistryState {
  const none = new Map<string, never>();
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
