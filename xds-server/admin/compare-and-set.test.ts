import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { TestRegistry } from "../registry/registry-fixture.js";
import { compareAndSet } from "./compare-and-set.js";

const KEY = "/servemesh/v1/leader/counter";

let test: TestRegistry;

beforeEach(async () => {
  test = await TestRegistry.open(new ManualClock());
});

afterEach(() => test.close());

/** Somebody else's write, past the registry that decides. */
async function overtake(value: string): Promise<void> {
  await test.store.txn([], [{ kind: "put", key: KEY, value }]);
}

/** A change that reads the key's revision and writes only on top of it. */
function changeOf(overtakings: number, seen: bigint[]) {
  return compareAndSet(test.registry, () => {
    const equals = test.registry.modRevisionOf(KEY);
    if (seen.length < overtakings) void overtake(`other ${seen.length}`);
    seen.push(equals);
    return {
      compares: [{ key: KEY, target: "mod_revision", equals }],
      operations: [{ kind: "put", key: KEY, value: "mine" }],
      result: seen.length,
    };
  });
}

describe("compareAndSet", () => {
  it("decides anew on what others wrote, and writes on top of it", async () => {
    const seen: bigint[] = [];
    expect(await changeOf(2, seen)).toEqual({ revision: 3n, result: 3 });
    expect(seen).toEqual([0n, 1n, 2n]);
    expect((await test.store.list(KEY)).items[0]?.value).toBe("mine");
  });

  it("gives up with a conflict when others never stop, having written nothing", async () => {
    const seen: bigint[] = [];
    await expect(changeOf(Number.POSITIVE_INFINITY, seen)).rejects.toMatchObject({ code: "conflict" });
    expect(seen).toHaveLength(8);
    expect((await test.store.list(KEY)).items[0]?.value).toBe("other 7");
  });

  it("goes on after a change that was refused", async () => {
    const refused = compareAndSet(test.registry, () => {
      throw new Error("no");
    });
    const next = changeOf(0, []);
    await expect(refused).rejects.toThrow("no");
    expect((await next).revision).toBe(1n);
  });
});
