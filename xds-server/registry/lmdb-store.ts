import { randomUUID } from "node:crypto";
import type { Clock } from "../platform/clock.js";
import { closeLmdbFile, type LmdbFile, openLmdbFile, type StoredItem } from "./lmdb-file.js";
import {
  type Compare,
  checkTxn,
  type Lease,
  type LeaseId,
  type Listing,
  type Operation,
  type Store,
  type StoreItem,
  type TxnResult,
  type Watch,
  type WatchBatch,
  type WatchEvent,
  type WatchListener,
} from "./store.js";
import { WatchHub } from "./watch-hub.js";

/**
 * The embedded store: one LMDB file of one process, for one machine. A kept promise means that the data is on disk, and
 * a crash at any moment leaves the last complete transaction. Watches and leases live in this process: the store keeps
 * its own leases alive, and those of a process that ended run out after their time to live, counted from the opening.
 */
export class LmdbStore implements Store {
  readonly #folder: string;
  readonly #file: LmdbFile;
  readonly #clock: Clock;
  readonly #hub: WatchHub;
  readonly #keysOfLease = new Map<LeaseId, Set<string>>();
  /** Time to live in ms of granted leases that the file does not know yet: they are written with their first key. */
  readonly #unwrittenLeases = new Map<LeaseId, number>();
  readonly #cancelOrphans: (() => void)[] = [];
  #revision: bigint;
  /** Transactions run one after the other, so watchers see them in order. */
  #last: Promise<unknown> = Promise.resolve();
  #closed = false;

  /**
   * @param folder made if absent; holds nothing else
   * @throws Error with one sentence that names the folder, when it is in use or unreadable
   */
  constructor(folder: string, clock: Clock) {
    this.#folder = folder;
    this.#clock = clock;
    this.#file = openLmdbFile(folder);
    this.#revision = BigInt((this.#file.meta.get("revision") as string | undefined) ?? "0");
    this.#hub = new WatchHub(this.#revision);
    this.#adoptLeases();
  }

  async list(prefix: string): Promise<Listing> {
    this.#checkOpen();
    // In line with the writes: between a commit and its promise the file is ahead of the revision known here.
    return this.#oneByOne(async () => this.#read(prefix));
  }

  async txn(compares: readonly Compare[], operations: readonly Operation[]): Promise<TxnResult> {
    this.#checkOpen();
    checkTxn(compares, operations);
    return this.#oneByOne(() => this.#commit(compares, operations));
  }

  watch(prefix: string, fromRevision: bigint, listener: WatchListener): Watch {
    this.#checkOpen();
    return this.#hub.watch(prefix, fromRevision, listener);
  }

  async grantLease(ttlMs: number): Promise<Lease> {
    this.#checkOpen();
    const id = randomUUID();
    this.#keysOfLease.set(id, new Set());
    this.#unwrittenLeases.set(id, ttlMs);
    // Nothing but the end of this process can end a lease here.
    const lost = new Promise<void>(() => undefined);
    return { id, lost, revoke: () => this.#oneByOne(() => this.#endLease(id)) };
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const cancel of this.#cancelOrphans) cancel();
    this.#hub.close();
    await this.#last;
    await closeLmdbFile(this.#file, this.#folder);
  }

  #read(prefix: string): Listing {
    const items: StoreItem[] = [];
    // The first text after all that start with the prefix: its last character, one higher.
    const end = prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
    const range = prefix === "" ? {} : { start: prefix, end };
    for (const { key, value } of this.#file.items.getRange(range)) items.push(itemOf(key, value));
    return { revision: this.#revision, items };
  }

  /** @param alongside more writes of the same transaction, if its comparisons hold */
  async #commit(
    compares: readonly Compare[],
    operations: readonly Operation[],
    alongside: () => void = () => undefined,
  ): Promise<TxnResult> {
    const batch = await this.#file.root.transaction(() => {
      const applied = this.#apply(compares, operations);
      if (applied !== undefined) alongside();
      return applied;
    });
    if (batch === undefined) return { succeeded: false, revision: this.#revision };
    if (batch.events.length === 0) return { succeeded: true, revision: this.#revision };
    this.#revision = batch.revision;
    this.#indexLeases(batch, operations);
    this.#hub.publish(batch);
    return { succeeded: true, revision: batch.revision };
  }

  /** Inside a write transaction. Everything that can be refused is checked before the first write. */
  #apply(compares: readonly Compare[], operations: readonly Operation[]): WatchBatch | undefined {
    const { items, meta } = this.#file;
    for (const operation of operations) {
      const lease = operation.kind === "put" ? operation.lease : undefined;
      if (lease !== undefined && !this.#keysOfLease.has(lease))
        throw new Error(`lease ${lease} is over; grant a new one`);
    }
    for (const { key, target, equals } of compares) {
      const item = items.get(key);
      const revision = target === "mod_revision" ? item?.modified : item?.created;
      if (BigInt(revision ?? "0") !== equals) return undefined;
    }
    const revision = this.#revision + 1n;
    const events: WatchEvent[] = [];
    for (const operation of operations) {
      const before = items.get(operation.key);
      if (operation.kind === "put") {
        const stored: StoredItem = {
          value: operation.value,
          created: before?.created ?? revision.toString(),
          modified: revision.toString(),
          ...(operation.lease === undefined ? {} : { lease: operation.lease }),
        };
        items.putSync(operation.key, stored);
        if (operation.lease !== undefined) this.#writeLease(operation.lease);
        events.push({ kind: "put", item: itemOf(operation.key, stored) });
      } else if (before !== undefined) {
        items.removeSync(operation.key);
        events.push({ kind: "delete", key: operation.key });
      }
    }
    if (events.length > 0) meta.putSync("revision", revision.toString());
    return { revision, events };
  }

  #indexLeases(batch: WatchBatch, operations: readonly Operation[]): void {
    const leases = new Map(
      operations.map((operation) => [operation.key, operation.kind === "put" ? operation.lease : undefined]),
    );
    for (const event of batch.events) {
      const key = event.kind === "put" ? event.item.key : event.key;
      for (const keys of this.#keysOfLease.values()) keys.delete(key);
      const lease = leases.get(key);
      if (lease === undefined) continue;
      this.#keysOfLease.get(lease)?.add(key);
      this.#unwrittenLeases.delete(lease);
    }
  }

  /** Leases found at the opening belong to a process that has ended; they run out unless their keys are written again. */
  #adoptLeases(): void {
    for (const { key: id } of this.#file.leases.getRange()) this.#keysOfLease.set(id, new Set());
    for (const { key, value } of this.#file.items.getRange()) {
      if (value.lease !== undefined) this.#keysOfLease.get(value.lease)?.add(key);
    }
    for (const { key: id, value: ttlMs } of this.#file.leases.getRange()) {
      const end = (): void => void this.#oneByOne(() => this.#endLease(id)).catch(() => undefined);
      this.#cancelOrphans.push(this.#clock.schedule(ttlMs, end));
    }
  }

  /** Inside a write transaction. The lease counts as written only when that one is committed. */
  #writeLease(id: LeaseId): void {
    const ttlMs = this.#unwrittenLeases.get(id);
    if (ttlMs !== undefined) this.#file.leases.putSync(id, ttlMs);
  }

  async #endLease(id: LeaseId): Promise<void> {
    const keys = this.#keysOfLease.get(id);
    if (this.#closed || keys === undefined) return;
    if (!this.#unwrittenLeases.has(id)) {
      const deletes = [...keys].map((key) => ({ kind: "delete", key }) as const);
      await this.#commit([], deletes, () => void this.#file.leases.removeSync(id));
    }
    this.#keysOfLease.delete(id);
    this.#unwrittenLeases.delete(id);
  }

  #oneByOne<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  #checkOpen(): void {
    if (this.#closed) throw new Error(`store ${this.#folder} is closed`);
  }
}

function itemOf(key: string, stored: StoredItem): StoreItem {
  return {
    key,
    value: stored.value,
    createRevision: BigInt(stored.created),
    modRevision: BigInt(stored.modified),
  };
}
