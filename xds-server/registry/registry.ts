import type { Replica } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { Clock } from "../platform/clock.js";
import { REGISTRY_PREFIX } from "./keys.js";
import { RegistryView, type StageHead } from "./registry-view.js";
import type { RegistryState } from "./state.js";
import type { Compare, Lease, Listing, Operation, Store, Watch, WatchBatch } from "./store.js";

/** Pause before a failed read of the store is tried again. */
const READ_AGAIN_MS = 1_000;

export interface RegistryDeps {
  readonly store: Store;
  readonly clock: Pick<Clock, "schedule">;
  /** Told of a failed read of the store; what was read before stays in force and it is tried again. */
  readonly onReadFailure: (problem: string) => void;
}

/**
 * The registry in memory, kept equal to the store: the only way by which the control plane reads and writes records.
 * Everything happens on the event loop; a state is immutable and always one whole revision.
 */
export class Registry {
  readonly #deps: RegistryDeps;
  readonly #view = new RegistryView();
  readonly #listeners = new Set<() => void>();
  readonly #waiters = new Set<() => void>();
  #turn: Promise<unknown> = Promise.resolve();
  #watch: Watch | undefined;
  #cancelRetry: () => void = () => undefined;
  #isClosed = false;

  private constructor(deps: RegistryDeps) {
    this.#deps = deps;
  }

  /** Resolves when the store has been read once as a whole. */
  static async open(deps: RegistryDeps): Promise<Registry> {
    const registry = new Registry(deps);
    await registry.#read();
    return registry;
  }

  get state(): RegistryState {
    return this.#view.state;
  }

  /** Revision of the last write to a store key, readable or not; 0 when there is none. */
  modRevisionOf(storeKey: string): bigint {
    return this.#view.modRevisionOf(storeKey);
  }

  /** The latest stage event of `ranker:41`; undefined when there is none. */
  stageHead(reference: string): StageHead | undefined {
    return this.#view.stageHead(reference);
  }

  /** Store keys of readable replica records that hold for a given one, also of those that another record with their id hides. */
  replicaKeys(matches: (replica: Replica) => boolean): string[] {
    return this.#view.replicaKeys(matches);
  }

  /** Calls back after every change; the returned function ends it. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /**
   * Applies all operations if every comparison holds. Resolves when `state` shows the result, so that a caller reads its
   * own writes.
   * @returns the revision, or undefined when a comparison failed; then `state` shows what is there instead
   */
  async commit(compares: readonly Compare[], operations: readonly Operation[]): Promise<bigint | undefined> {
    const { succeeded, revision } = await this.#deps.store.txn(compares, operations);
    if (succeeded) {
      await this.#reached(revision);
      return revision;
    }
    // Somebody else wrote; the watch may not have told yet.
    this.#load(await this.#deps.store.list(REGISTRY_PREFIX));
    return undefined;
  }

  /**
   * Runs changes one after the other, so that each is decided on what the one before left. Comparisons protect against
   * writers of other processes; this spares retries, and makes rules over several records exact within one process.
   */
  inTurn<T>(change: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(change);
    this.#turn = result.catch(() => undefined);
    return result;
  }

  grantLease(ttlMs: number): Promise<Lease> {
    return this.#deps.store.grantLease(ttlMs);
  }

  /** Ends the watch. The store belongs to the caller. */
  close(): void {
    this.#isClosed = true;
    this.#watch?.close();
    this.#cancelRetry();
    for (const check of [...this.#waiters]) check();
  }

  async #read(): Promise<void> {
    this.#watch?.close();
    const listing = await this.#deps.store.list(REGISTRY_PREFIX);
    if (this.#isClosed) return;
    this.#load(listing);
    this.#watch = this.#deps.store.watch(REGISTRY_PREFIX, listing.revision + 1n, {
      changed: (batch) => this.#apply(batch),
      compacted: () => void this.#readAgain(),
    });
  }

  async #readAgain(): Promise<void> {
    if (this.#isClosed) return;
    try {
      await this.#read();
    } catch (error) {
      this.#deps.onReadFailure(error instanceof Error ? error.message : String(error));
      this.#cancelRetry = this.#deps.clock.schedule(READ_AGAIN_MS, () => void this.#readAgain());
    }
  }

  #load(listing: Listing): void {
    if (listing.revision <= this.#view.revision && this.#view.revision > 0n) return;
    this.#view.load(listing);
    this.#changed();
  }

  #apply(batch: WatchBatch): void {
    // A listing in between may have shown this already.
    if (batch.revision <= this.#view.revision) return;
    this.#view.apply(batch);
    this.#changed();
  }

  #changed(): void {
    for (const check of [...this.#waiters]) check();
    for (const listener of [...this.#listeners]) listener();
  }

  #reached(revision: bigint): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        if (this.#view.revision < revision && !this.#isClosed) return;
        this.#waiters.delete(check);
        resolve();
      };
      this.#waiters.add(check);
      check();
    });
  }
}
