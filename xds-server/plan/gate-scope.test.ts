import { describe, expect, it } from "vitest";
import { gateWithin } from "./gate-scope.js";
import { planMesh } from "./plan.js";
import { rankerFixture, stateOf } from "./state-fixture.js";

const key = (byte: number) => [{ id: "k1", sha256: Buffer.alloc(32, byte) }];
const { gate } = planMesh(
  stateOf({
    ...rankerFixture(),
    tenants: [
      { name: "all", keys: key(1), models: ["*"] },
      { name: "lite", keys: key(2), models: ["ranker-lite"] },
      { name: "both", keys: key(3), models: ["ranker", "ranker-lite"] },
      { name: "nobody", keys: key(4), models: [] },
    ],
  }),
);

describe("the gate of a group with some models", () => {
  it("knows these models, and the tenants that may call one of them", () => {
    const scoped = gateWithin(gate, ["ranker", "not-registered"]);
    expect(scoped.models.map(({ name }) => name)).toEqual(["ranker"]);
    expect(scoped.tenants.map(({ name }) => name).sort()).toEqual(["all", "both"]);
  });

  it("knows nobody's key when there is nothing to call", () => {
    expect(gateWithin(gate, ["not-registered"])).toMatchObject({ models: [], tenants: [{ name: "all" }] });
  });
});
