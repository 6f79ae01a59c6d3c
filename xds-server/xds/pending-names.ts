import { changesBetween } from "../platform/layered-map.js";
import type { ResourceMap } from "../snapshot/snapshot.js";

/** Nearly every look finds this. */
const NONE: readonly never[] = [];

/**
 * Remembers what was found to be pending under each name of one type on one stream, and which names have to be looked at again: those
 * that something happened to, and those that differ between the target of the last look and today's. After something that
 * may concern every name, every name is looked at.
 */
export class PendingNames<Pending> {
  readonly #pending = new Map<string, Pending>();
  readonly #touched = new Set<string>();
  #isAllTouched = true;
  #target: ResourceMap | undefined;
  #nodeRevision = -1;

  touch(name: string): void {
    if (!this.#isAllTouched) this.#touched.add(name);
  }

  touchAll(): void {
    this.#isAllTouched = true;
  }

  /**
   * Names to look at for this target, each of which must then be noted; undefined for every name.
   * @param nodeRevision of what the node refused, which any of its streams may change
   */
  toLookAt(target: ResourceMap, nodeRevision: number): readonly string[] | undefined {
    const before = this.#target;
    if (this.#isUnchanged(target, nodeRevision)) return NONE;
    const isAll = this.#isAllTouched || before === undefined || nodeRevision !== this.#nodeRevision;
    const names = [...this.#touched];
    this.#touched.clear();
    this.#isAllTouched = false;
    this.#target = target;
    this.#nodeRevision = nodeRevision;
    if (isAll) {
      this.#pending.clear();
      return undefined;
    }
    if (before !== target) for (const { key } of changesBetween(before, target)) names.push(key);
    return names;
  }

  #isUnchanged(target: ResourceMap, nodeRevision: number): boolean {
    const isUntouched = !this.#isAllTouched && this.#touched.size === 0;
    return isUntouched && target === this.#target && nodeRevision === this.#nodeRevision;
  }

  note(name: string, pending: Pending | undefined): void {
    if (pending === undefined) this.#pending.delete(name);
    else this.#pending.set(name, pending);
  }

  items(): readonly Pending[] {
    return this.#pending.size === 0 ? NONE : [...this.#pending.values()];
  }
}
