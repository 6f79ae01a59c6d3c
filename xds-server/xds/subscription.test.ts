import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CLUSTER_TYPE, ROUTE_TYPE } from "../snapshot/resource-types.js";
import { Subscription } from "./subscription.js";

/** The same sequences in every run. */
const SEED = 20_261_130;

describe("Subscription", () => {
  it("reads lists of all names as the change to the list before", () => {
    const subscription = new Subscription(ROUTE_TYPE);
    const replace = (...names: string[]): object => {
      const { added, dropped } = subscription.apply({ kind: "all", names });
      return { added, dropped };
    };
    expect(replace("a", "b")).toEqual({ added: ["a", "b"], dropped: [] });
    expect(replace("a", "b")).toEqual({ added: [], dropped: [] });
    expect(replace("b", "a", "b")).toEqual({ added: [], dropped: [] });
    expect(replace("b", "c")).toEqual({ added: ["c"], dropped: ["a"] });
    expect(replace()).toEqual({ added: [], dropped: ["b", "c"] });
    expect(subscription.covers("b")).toBe(false);
  });

  it("opens and closes the wildcard once, however it is said", () => {
    const subscription = new Subscription(CLUSTER_TYPE);
    const wildcard = (...names: string[]): string => {
      const { opensWildcard, closesWildcard } = subscription.apply({ kind: "all", names });
      return `${opensWildcard ? "opens " : ""}${closesWildcard ? "closes" : ""}`.trim();
    };
    expect(wildcard()).toBe("opens");
    expect(wildcard("*")).toBe("");
    expect(wildcard("a")).toBe("closes");
    expect(wildcard()).toBe("");
    expect(wildcard("a", "*")).toBe("opens");
    expect(subscription.covers("anything")).toBe(true);
    expect([...subscription.names]).toEqual(["a"]);
  });

  it("comes to the same by both protocols, whatever is asked for and dropped", () => {
    const name: fc.Arbitrary<string> = fc.constantFrom("a", "b", "c", "*");
    fc.assert(
      fc.property(fc.array(fc.uniqueArray(name), { maxLength: 8 }), (lists) => {
        const whole = new Subscription(ROUTE_TYPE);
        const delta = new Subscription(ROUTE_TYPE);
        let before: readonly string[] = [];
        for (const names of lists) {
          whole.apply({ kind: "all", names });
          const subscribe = names.filter((wanted) => !before.includes(wanted));
          const unsubscribe = before.filter((held) => !names.includes(held));
          delta.apply({ kind: "change", subscribe, unsubscribe });
          before = names;
          expect([...whole.names].sort()).toEqual([...delta.names].sort());
          expect(whole.isWildcard).toBe(delta.isWildcard);
          expect(whole.isWildcard).toBe(names.includes("*"));
        }
      }),
      { seed: SEED },
    );
  });
});
