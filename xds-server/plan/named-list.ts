/** Position of a name in a list that is sorted by name; undefined when it is not there. */
export function positionOf<T>(sorted: readonly T[], name: string, nameOf: (item: T) => string): number | undefined {
  let low = 0;
  let high = sorted.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const found = nameOf(sorted[middle] as T);
    if (found === name) return middle;
    if (found < name) low = middle + 1;
    else high = middle - 1;
  }
  return undefined;
}

/**
 * A list, sorted by name, with other items under some names; undefined takes an item out. It is the same list when every
 * item is the one that was there, and only a change of names costs more than copying references.
 */
export function replaceNamed<T>(
  sorted: readonly T[],
  updates: ReadonlyMap<string, T | undefined>,
  nameOf: (item: T) => string,
): readonly T[] {
  const places = [...updates].map(([name, item]) => ({ item, at: positionOf(sorted, name, nameOf) }));
  const changed = places.filter(({ item, at }) => item !== (at === undefined ? undefined : sorted[at]));
  if (changed.length === 0) return sorted;
  if (changed.every(({ item, at }) => item !== undefined && at !== undefined)) {
    const replaced = sorted.slice();
    for (const { item, at } of changed) replaced[at as number] = item as T;
    return replaced;
  }
  const kept = sorted.filter((item) => !updates.has(nameOf(item)));
  const given = [...updates.values()].filter((item) => item !== undefined);
  return [...kept, ...given].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
}
