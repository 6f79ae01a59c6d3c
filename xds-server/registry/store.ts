/**
 * Where the registry's records live. Shaped after etcd v3, whose words it uses, so that an etcd adapter adds nothing: one
 * global revision that grows with every successful transaction that writes, and per key the revision of its creation and
 * of its last write. One contract test (store-contract.ts) holds for all adapters.
 *
 * Thread model: everything happens on the event loop; listeners are called one at a time and must not throw.
 */
export interface Store {
  /** All items whose key starts with `prefix`, sorted by key, as of one revision. */
  list(prefix: string): Promise<Listing>;

  /**
   * Applies all operations at one new revision if every comparison holds, else nothing. Operations of one transaction
   * touch different keys. When this resolves, the write is durable and watchers of this store object may or may not have
   * been told yet.
   * @throws Error when it is unknown whether the transaction was applied; read again before deciding
   */
  txn(compares: readonly Compare[], operations: readonly Operation[]): Promise<TxnResult>;

  /**
   * Tells of every change under `prefix` from `fromRevision` on, in order, each revision once and whole, however often
   * the adapter has to reconnect. To follow a prefix without a gap: `list`, then `watch(prefix, listing.revision + 1)`.
   */
  watch(prefix: string, fromRevision: bigint, listener: WatchListener): Watch;

  /**
   * Grants a lease and keeps it alive until `revoke` or the end of this process. Keys written under it are deleted when
   * it ends; after a crash they stay for at most `ttlMs`, and are kept if they are written again under a living lease.
   */
  grantLease(ttlMs: number): Promise<Lease>;

  /** Ends watches and stops keeping leases alive, without revoking them. */
  close(): Promise<void>;
}

export interface Listing {
  /** Revision of the store when this was read; at least every item's `modRevision`. */
  readonly revision: bigint;
  readonly items: readonly StoreItem[];
}

export interface StoreItem {
  readonly key: string;
  readonly value: string;
  /** Revision of the transaction that made the key; a deleted and re-made key gets a new one. */
  readonly createRevision: bigint;
  /** Revision of the last write to the key. */
  readonly modRevision: bigint;
}

/** Holds when the key's revision equals the given one; 0 means that the key does not exist. */
export interface Compare {
  readonly key: string;
  readonly target: "mod_revision" | "create_revision";
  readonly equals: bigint;
}

export type Operation =
  | { readonly kind: "put"; readonly key: string; readonly value: string; readonly lease?: LeaseId }
  | { readonly kind: "delete"; readonly key: string };

export interface TxnResult {
  /** False when a comparison did not hold; nothing was written then. */
  readonly succeeded: boolean;
  /** Revision of this transaction when it wrote something, else the store's present one. */
  readonly revision: bigint;
}

export interface WatchListener {
  /** All changes of one revision. */
  changed(batch: WatchBatch): void;
  /**
   * The history no longer reaches back to where the watch stands. The watch is over: list again, work out what changed
   * (also what was deleted), and watch from there. Never clear and refill.
   */
  compacted(): void;
}

export interface WatchBatch {
  readonly revision: bigint;
  readonly events: readonly WatchEvent[];
}

export type WatchEvent =
  | { readonly kind: "put"; readonly item: StoreItem }
  | { readonly kind: "delete"; readonly key: string };

export interface Watch {
  close(): void;
}

/** Opaque; unique in one store for ever. */
export type LeaseId = string;

export interface Lease {
  readonly id: LeaseId;
  /**
   * Resolves when the lease is over by this process's own clock, before the store can think so; its keys are or will be
   * deleted. Never resolves after `revoke`.
   */
  readonly lost: Promise<void>;
  /** Deletes the lease's keys now. */
  revoke(): Promise<void>;
}

/** Longest key, in bytes. */
export const KEY_MAX_BYTES = 1_024;
/** Largest value, in bytes; etcd's default for a whole request is 1.5 MiB. */
export const VALUE_MAX_BYTES = 512 * 1024;
/** Most comparisons and most operations of one transaction; etcd's default. */
export const TXN_MAX_PARTS = 128;

/**
 * Limits that hold for every adapter, checked before anything is sent.
 * @throws RangeError with one sentence
 */
export function checkTxn(compares: readonly Compare[], operations: readonly Operation[]): void {
  if (compares.length > TXN_MAX_PARTS || operations.length > TXN_MAX_PARTS) {
    throw new RangeError(`a transaction has at most ${TXN_MAX_PARTS} comparisons and operations; split the change`);
  }
  const keys = new Set<string>();
  for (const operation of operations) {
    const { key } = operation;
    if (keys.has(key)) throw new RangeError(`a transaction may write ${key} only once`);
    keys.add(key);
    if (Buffer.byteLength(key) > KEY_MAX_BYTES)
      throw new RangeError(`key ${key.slice(0, 80)}… is above ${KEY_MAX_BYTES} bytes`);
    if (operation.kind === "put" && Buffer.byteLength(operation.value) > VALUE_MAX_BYTES) {
      throw new RangeError(`the record at ${key} is above ${VALUE_MAX_BYTES} bytes; make it smaller`);
    }
  }
}
