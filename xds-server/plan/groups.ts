import { type EntryChange, LayeredMap } from "../platform/layered-map.js";
import type { Revisioned } from "../registry/state.js";

/** Records by what they belong to, such as aliases by model; groups that did not change are the same objects. */
export type Groups<T> = LayeredMap<ReadonlyMap<string, T>>;

export function noGroups<T>(): Groups<T> {
  return LayeredMap.over(new Map<string, ReadonlyMap<string, T>>());
}

/** Takes changes of records over into their groups; a group without records is gone. */
export function regroup<T>(
  groups: Groups<T>,
  changes: readonly EntryChange<Revisioned<T>>[],
  groupOf: (record: T) => string,
): Groups<T> {
  const drafts = new Map<string, Map<string, T>>();
  const draftOf = (record: T): Map<string, T> => {
    const group = groupOf(record);
    const draft = drafts.get(group) ?? new Map(groups.get(group));
    drafts.set(group, draft);
    return draft;
  };
  for (const { key, before, after } of changes) {
    // A record may have moved, such as a replica that serves another version now.
    if (before !== undefined) draftOf(before.value).delete(key);
    if (after !== undefined) draftOf(after.value).set(key, after.value);
  }
  return groups.with([...drafts].map(([group, draft]) => [group, draft.size === 0 ? undefined : draft]));
}
