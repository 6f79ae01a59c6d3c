import { expect, it } from "vitest";
import { CLUSTER_TYPE, LISTENER_TYPE, ROUTE_TYPE } from "../snapshot/resource-types.js";
import { RecentStates } from "./recent-states.js";
import { World } from "./world-fixture.js";

it("remembers the last eight versions of each type that travels whole, and no others", () => {
  const recent = new RecentStates();
  const world = new World().set(LISTENER_TYPE, ["l"], "v1").set(ROUTE_TYPE, ["r"], "v1");
  const states = Array.from({ length: 9 }, (_, index) => world.set(CLUSTER_TYPE, ["a"], `v${index}`).snapshot());
  for (const state of states) recent.remember(state);
  // Published again: nothing new, so nothing is pushed out.
  for (const state of states.slice(-8)) recent.remember(state);
  const isKnown = states.map(
    ({ typeVersions }) => recent.recall(CLUSTER_TYPE, typeVersions[CLUSTER_TYPE]) !== undefined,
  );
  expect(isKnown).toEqual([false, true, true, true, true, true, true, true, true]);
  const [first] = states;
  const versionOf = (type: typeof LISTENER_TYPE | typeof ROUTE_TYPE): string => first?.typeVersions[type] ?? "";
  expect([...(recent.recall(LISTENER_TYPE, versionOf(LISTENER_TYPE))?.keys() ?? [])]).toEqual(["l"]);
  expect(recent.recall(ROUTE_TYPE, versionOf(ROUTE_TYPE))).toBeUndefined();
});
