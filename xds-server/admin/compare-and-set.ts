import type { Registry } from "../registry/registry.js";
import { RegistryError } from "../registry/registry-error.js";
import type { Compare, Operation } from "../registry/store.js";

/** One decided change: what must still hold when it is written, and the writes. */
export interface Change<T> {
  readonly compares: readonly Compare[];
  readonly operations: readonly Operation[];
  readonly result: T;
}

export interface Changed<T> {
  readonly revision: bigint;
  readonly result: T;
}

/** Attempts until a change that others keep overtaking is given back to the caller. */
const ATTEMPTS_MAX = 8;

/**
 * Decides on the present state and writes if that state still holds, else decides anew. Never repeats a write blindly.
 * @param decide pure function of the registry's state; throws RegistryError to refuse
 */
export function compareAndSet<T>(registry: Registry, decide: () => Change<T>): Promise<Changed<T>> {
  return registry.inTurn(async () => {
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
      const { compares, operations, result } = decide();
      const revision = await registry.commit(compares, operations);
      if (revision !== undefined) return { revision, result };
    }
    throw new RegistryError("conflict", "other writers changed what this change depends on again and again; try again");
  });
}

/**
 * Checks the revision that a caller saw, and gives the comparison that holds it until the write.
 * @param expected 0: the record must not exist; -1: whatever it is; else its revision
 * @param name of the record in people's words, such as `ranker@prod`
 * @throws RegistryError when it is another one by now
 */
export function expectRevision(registry: Registry, storeKey: string, expected: bigint, name: string): Compare[] {
  if (expected === -1n) return [];
  const message = revisionProblem(registry.modRevisionOf(storeKey), expected, name);
  if (message === undefined) return [{ key: storeKey, target: "mod_revision", equals: expected }];
  throw new RegistryError(expected < 0n ? "invalid" : expected === 0n ? "exists" : "conflict", message);
}

function revisionProblem(present: bigint, expected: bigint, name: string): string | undefined {
  if (expected < 0n)
    return `expected_revision is ${expected}; send the revision that you saw, 0 for a new record, or -1 for any`;
  if (present === expected) return undefined;
  if (expected === 0n) {
    return `expected_revision is 0, but ${name} exists at revision ${present}; read it and send its revision, or -1 for any`;
  }
  const now =
    present === 0n ? "does not exist; send 0 to create it" : `is at revision ${present}; read it again and decide anew`;
  return `expected_revision is ${expected}, but ${name} ${now}`;
}
