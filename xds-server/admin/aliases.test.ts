import type { DeepPartial, SetAliasRequest } from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import { Stage } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AdminClient, AdminError } from "./admin-client.js";
import { AdminFixture, refusal, SERVING } from "./admin-fixture.js";

const { STAGE_STAGING, STAGE_PRODUCTION, STAGE_ARCHIVED } = Stage;

let fixture: AdminFixture;
let admin: AdminClient;

beforeEach(async () => {
  fixture = await AdminFixture.open();
  admin = fixture.admin;
});

afterEach(() => fixture.close());

describe("aliases", () => {
  beforeEach(async () => {
    await fixture.putRanker();
    await fixture.register(41n, STAGE_PRODUCTION);
    await fixture.register(42n, STAGE_STAGING);
    await fixture.register(43n);
    await admin.putModel({ model: { name: "lite" } });
    await fixture.register(1n, STAGE_PRODUCTION, "lite");
    await fixture.register(2n, STAGE_PRODUCTION, "lite", {
      ...SERVING,
      outputs: [{ name: "score", datatype: "FP64", shape: [-1n, 1n] }],
    });
  });

  const set = (alias: DeepPartial<SetAliasRequest["alias"]>, expectedRevision = 0n) =>
    admin.setAlias({ alias: { model: "ranker", alias: "prod", ...alias }, expectedRevision });
  const to = (...weights: [bigint, number][]) => weights.map(([version, weight]) => ({ version, weight }));

  it("are replaced as a whole, by compare-and-set", async () => {
    const first = await set({
      split: to([41n, 95], [42n, 5]),
      fallback: ["lite:1"],
      shadow: { version: 42n },
      deadlineMs: 80,
    });
    expect(await admin.getAlias({ model: "ranker" })).toEqual(first);
    const second = await set({ split: to([41n, 100], [42n, 0]) }, first.revision);
    expect(second.alias).toMatchObject({
      split: to([41n, 100], [42n, 0]),
      fallback: [],
      shadow: undefined,
      deadlineMs: 0,
    });
    expect(await refusal(set({ split: to([41n, 1]) }, first.revision))).toContain("ABORTED: expected_revision");
    expect(await refusal(set({ split: to([41n, 1]) }, 0n))).toContain(
      "ALREADY_EXISTS: expected_revision is 0, but ranker@prod exists",
    );
    expect(await admin.getAlias({ model: "ranker", alias: "prod" })).toEqual(second);
    expect(await refusal(admin.getAlias({ model: "ranker", alias: "canary" }))).toContain(
      "NOT_FOUND: alias: ranker@canary",
    );
  });

  it.each([
    [
      { split: to([42n, 1]) },
      "FAILED_PRECONDITION: ranker@prod: split: the primary ranker:42 is in stage staging but must be in production",
    ],
    [
      { split: to([41n, 74], [42n, 26]) },
      "ranker:42 is in stage staging and may get at most 25 % of the traffic, not 26 %",
    ],
    [{ split: to([41n, 99], [43n, 1]) }, "ranker:43 is in stage registered"],
    [{ split: to([41n, 1]), shadow: { version: 43n } }, "shadow: ranker:43 is in stage registered"],
    [
      { split: to([41n, 1]), fallback: ["ranker:42"] },
      "fallback: ranker:42 is in stage staging but must be in production",
    ],
    [{ split: to([41n, 1]), fallback: ["lite:2"] }, "fallback: lite:2 has other outputs than ranker:41"],
    [{ split: to([41n, 1], [99n, 0]) }, "NOT_FOUND: ranker@prod: ranker:99 is not registered"],
    [
      { split: to([41n, 1]), deadlineMs: 2_001 },
      "FAILED_PRECONDITION: ranker@prod: deadline_ms 2001 is above the model's 2000",
    ],
    [{ split: to([41n, 0], [42n, 0]) }, "INVALID_ARGUMENT: alias: split has no weight above 0"],
    [
      { split: [{ version: 41n }] },
      "INVALID_ARGUMENT: alias: split[0].weight of version 41 is missing; write 0 to take the version out",
    ],
    [{ split: to([41n, 1], [41n, 2]) }, 'INVALID_ARGUMENT: alias: split.version: "41" is listed twice'],
    [{ split: [] }, "INVALID_ARGUMENT: alias: split is empty"],
    [{ split: to([41n, 1]), alias: "Prod" }, 'INVALID_ARGUMENT: alias.alias "Prod" must match'],
    [{ split: to([41n, 1]), model: "echo" }, "NOT_FOUND: alias.model: echo is not registered"],
  ])("%# are refused by the rule that they break", async (alias, problem) => {
    expect(await refusal(set(alias))).toContain(problem);
    expect(fixture.test.registry.state.aliases.size).toBe(0);
  });

  it("allow a canary of exactly a quarter", async () => {
    await set({ split: to([41n, 75], [42n, 25]) });
  });

  it("never win against a stage move that they were judged before", async () => {
    // Both are decided on the same state; whichever is written second must see the other.
    const outcomes = await Promise.all([
      set({ split: to([41n, 1]) }, -1n).then(
        () => "set",
        (error: AdminError) => error.status,
      ),
      admin.moveStage({ model: "ranker", version: 41n, stage: STAGE_ARCHIVED }).then(
        () => "archived",
        (error: AdminError) => error.status,
      ),
    ]);
    expect([
      ["set", "FAILED_PRECONDITION"],
      ["FAILED_PRECONDITION", "archived"],
    ]).toContainEqual(outcomes);
  });
});
