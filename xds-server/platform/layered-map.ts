/** Changes that a map carries on top of a base before it is written out as a base of its own. */
const CHANGES_MAX = 64;

/**
 * An immutable map whose changed copies share everything that did not change, so that a change costs the same in a map of
 * 10 and of 10,000 entries (once in 64 changes all entries are copied).
 *
 *     base     a=1 b=2 c=3 …      shared by all copies, never written to
 *     changes  b=5 d=7 c=gone     at most 64, copied with each change
 *
 * Iteration gives the base's order; a changed entry keeps its place, new entries come last.
 */
export class LayeredMap<V> implements ReadonlyMap<string, V> {
  readonly #base: ReadonlyMap<string, V>;
  readonly #changes: ReadonlyMap<string, V | undefined>;
  readonly size: number;

  private constructor(base: ReadonlyMap<string, V>, changes: ReadonlyMap<string, V | undefined>, size: number) {
    this.#base = base;
    this.#changes = changes;
    this.size = size;
  }

  /** Takes over a map, which nobody may write to any more. */
  static over<V>(map: ReadonlyMap<string, V>): LayeredMap<V> {
    return map instanceof LayeredMap ? map : new LayeredMap(map, new Map(), map.size);
  }

  /** The map with other entries under some keys; undefined takes an entry out. This very map when nothing differs. */
  with(changes: Iterable<readonly [string, V | undefined]>): LayeredMap<V> {
    const merged = new Map(this.#changes);
    let { size } = this;
    let isSame = true;
    for (const [key, value] of changes) {
      const before = merged.has(key) ? merged.get(key) : this.#base.get(key);
      if (value === before) continue;
      isSame = false;
      if (before === undefined) size += 1;
      if (value === undefined) size -= 1;
      // A key that comes back goes last, unless it never left the base.
      if (before === undefined) merged.delete(key);
      merged.set(key, value);
    }
    if (isSame) return this;
    const result = new LayeredMap(this.#base, merged, size);
    return merged.size <= CHANGES_MAX ? result : new LayeredMap(new Map(result), new Map(), size);
  }

  get(key: string): V | undefined {
    // Most maps have no changes, and most keys of the others are not among them.
    if (this.#changes.size === 0) return this.#base.get(key);
    return this.#changes.get(key) ?? (this.#changes.has(key) ? undefined : this.#base.get(key));
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  entries(): MapIterator<[string, V]> {
    return this.#changes.size === 0 ? this.#base.entries() : this.#merged();
  }

  keys(): MapIterator<string> {
    return this.#changes.size === 0 ? this.#base.keys() : this.#mergedKeys();
  }

  values(): MapIterator<V> {
    return this.#changes.size === 0 ? this.#base.values() : this.#mergedValues();
  }

  forEach(visit: (value: V, key: string, map: ReadonlyMap<string, V>) => void): void {
    for (const [key, value] of this.entries()) visit(value, key, this);
  }

  [Symbol.iterator](): MapIterator<[string, V]> {
    return this.entries();
  }

  *#merged(): MapIterator<[string, V]> {
    for (const entry of this.#base) {
      const [key] = entry;
      const changed = this.#changes.get(key);
      if (changed !== undefined) yield [key, changed];
      else if (!this.#changes.has(key)) yield entry;
    }
    for (const [key, value] of this.#changes) if (value !== undefined && !this.#base.has(key)) yield [key, value];
  }

  *#mergedKeys(): MapIterator<string> {
    for (const [key] of this.#merged()) yield key;
  }

  *#mergedValues(): MapIterator<V> {
    for (const [, value] of this.#merged()) yield value;
  }

  /** Keys that may differ from another map, when both are copies of one base; undefined when they are not. */
  changedSince(other: ReadonlyMap<string, V>): Iterable<string> | undefined {
    if (!(other instanceof LayeredMap) || other.#base !== this.#base) return undefined;
    return new Set([...other.#changes.keys(), ...this.#changes.keys()]);
  }
}

/** One entry that differs between two maps; undefined where there is none. */
export interface EntryChange<V> {
  readonly key: string;
  readonly before: V | undefined;
  readonly after: V | undefined;
}

/** The comparison that each map was the later side of last: thousands of streams ask for the same one in turn. */
const lastComparisons = new WeakMap<
  ReadonlyMap<string, unknown>,
  { readonly before: ReadonlyMap<string, unknown>; readonly changes: readonly EntryChange<unknown>[] }
>();

/**
 * Entries that are not the same object in both maps, each once. Of two copies of one base only what changed is looked at;
 * of other maps every entry. Neither map may be written to any more.
 */
export function changesBetween<V>(
  before: ReadonlyMap<string, V>,
  after: ReadonlyMap<string, V>,
): readonly EntryChange<V>[] {
  if (before === after) return [];
  const last = lastComparisons.get(after);
  if (last?.before === before) return last.changes as readonly EntryChange<V>[];
  const changes = compare(before, after);
  lastComparisons.set(after, { before, changes });
  // Else every map would keep alive the one before it, and so all that ever were.
  lastComparisons.delete(before);
  return changes;
}

function compare<V>(before: ReadonlyMap<string, V>, after: ReadonlyMap<string, V>): EntryChange<V>[] {
  const related = after instanceof LayeredMap ? after.changedSince(before) : undefined;
  const changes: EntryChange<V>[] = [];
  for (const key of related ?? new Set([...before.keys(), ...after.keys()])) {
    const change = { key, before: before.get(key), after: after.get(key) };
    if (change.before !== change.after) changes.push(change);
  }
  return changes;
}
