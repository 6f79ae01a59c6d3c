/** Objects of a plan, and what each became; one more result follows, that belongs to no item. */
export interface Translated<P, R> {
  readonly items: readonly P[];
  readonly results: readonly R[];
}

/**
 * Translates a list, taking over what was made before of the same object: plans share what did not change, so an object
 * that is the same one has the same translation. Of an unchanged item only a reference is copied.
 * @param last the result that follows those of the items
 */
export function translateEach<P, R>(
  items: readonly P[],
  translateOne: (item: P) => R,
  last: R,
  before: Translated<P, R> | undefined,
): R[] {
  if (before?.items.length !== items.length) {
    const known = new Map(before?.items.map((item, index) => [item, before.results[index] as R]));
    return [...items.map((item) => known.get(item) ?? translateOne(item)), last];
  }
  const results = before.results.slice();
  for (let index = 0; index < items.length; index++) {
    const item = items[index] as P;
    if (item !== before.items[index]) results[index] = translateOne(item);
  }
  results[items.length] = last;
  return results;
}

/** Whether two lists have the same names in the same order. Shared objects are not even looked at. */
export function haveSameNames<P>(before: readonly P[], now: readonly P[], nameOf: (item: P) => string): boolean {
  if (before === now) return true;
  if (before.length !== now.length) return false;
  for (let index = 0; index < now.length; index++) {
    const old = before[index] as P;
    const item = now[index] as P;
    if (old !== item && nameOf(old) !== nameOf(item)) return false;
  }
  return true;
}
