import type { Watch, WatchBatch, WatchListener } from "./store.js";

interface Watcher {
  readonly prefix: string;
  readonly listener: WatchListener;
  /** First revision that this watcher has not been told of. */
  nextRevision: bigint;
  /** Until it has been told the history, new changes wait there. */
  hasCaughtUp: boolean;
}

/** Revisions that a watch may start behind the present one. */
export const HISTORY_REVISIONS = 1_024;

/** Fans out changes to watchers and remembers the latest ones, so that nothing is lost between `list` and `watch`. */
export class WatchHub {
  readonly #watchers = new Set<Watcher>();
  #history: WatchBatch[] = [];
  /** Changes after this revision are in the history. */
  #compactedRevision: bigint;

  constructor(revision: bigint) {
    this.#compactedRevision = revision;
  }

  /** Batches come in order of revision. */
  publish(batch: WatchBatch): void {
    this.#history.push(batch);
    if (this.#history.length > 2 * HISTORY_REVISIONS) {
      this.#history = this.#history.slice(-HISTORY_REVISIONS);
      this.#compactedRevision = (this.#history[0]?.revision ?? batch.revision) - 1n;
    }
    for (const watcher of [...this.#watchers]) if (watcher.hasCaughtUp) this.#tell(watcher, batch);
  }

  watch(prefix: string, fromRevision: bigint, listener: WatchListener): Watch {
    const watcher: Watcher = { prefix, listener, nextRevision: fromRevision, hasCaughtUp: false };
    this.#watchers.add(watcher);
    // Later, so that the caller holds the watch before its listener is called.
    queueMicrotask(() => this.#catchUp(watcher));
    return { close: () => void this.#watchers.delete(watcher) };
  }

  close(): void {
    this.#watchers.clear();
  }

  #catchUp(watcher: Watcher): void {
    if (!this.#watchers.has(watcher)) return;
    watcher.hasCaughtUp = true;
    if (watcher.nextRevision <= this.#compactedRevision) {
      this.#watchers.delete(watcher);
      watcher.listener.compacted();
      return;
    }
    for (const batch of [...this.#history]) this.#tell(watcher, batch);
  }

  #tell(watcher: Watcher, batch: WatchBatch): void {
    if (!this.#watchers.has(watcher) || batch.revision < watcher.nextRevision) return;
    watcher.nextRevision = batch.revision + 1n;
    const events = batch.events.filter((event) =>
      (event.kind === "put" ? event.item.key : event.key).startsWith(watcher.prefix),
    );
    if (events.length > 0) watcher.listener.changed({ revision: batch.revision, events });
  }
}
