import { ReplicaState, Stage } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AdminClient, AdminError } from "./admin-client.js";
import { AdminFixture, refusal } from "./admin-fixture.js";

const { STAGE_PRODUCTION } = Stage;

let fixture: AdminFixture;
let admin: AdminClient;

beforeEach(async () => {
  fixture = await AdminFixture.open();
  admin = fixture.admin;
});

afterEach(() => fixture.close());

describe("models", () => {
  it("are written by compare-and-set", async () => {
    const model = { name: "ranker" };
    const { revision } = await admin.putModel({ model, expectedRevision: 0n });
    expect((await admin.getModel({ model: "ranker" })).revision).toBe(revision);
    expect(await refusal(admin.putModel({ model, expectedRevision: 0n }))).toContain(
      `ALREADY_EXISTS: expected_revision is 0, but ranker exists at revision ${revision}`,
    );
    const second = await admin.putModel({ model: { ...model, owner: "a" }, expectedRevision: revision });
    expect(await refusal(admin.putModel({ model, expectedRevision: revision }))).toContain(
      `ABORTED: expected_revision is ${revision}, but ranker is at revision ${second.revision}`,
    );
    await admin.putModel({ model: { ...model, owner: "b" }, expectedRevision: -1n });
    expect((await admin.getModel({ model: "ranker" })).model?.owner).toBe("b");
    expect(await refusal(admin.putModel({ model: { name: "new" }, expectedRevision: 7n }))).toContain(
      "ABORTED: expected_revision is 7, but new does not exist; send 0 to create it",
    );
    expect(await refusal(admin.putModel({ model, expectedRevision: -2n }))).toContain("INVALID_ARGUMENT");
  });

  it("let exactly one of two writers win who saw the same revision", async () => {
    const { revision } = await admin.putModel({ model: { name: "ranker" } });
    const writes = ["a", "b"].map((owner) =>
      admin.putModel({ model: { name: "ranker", owner }, expectedRevision: revision }).then(
        () => owner,
        (error: AdminError) => error.status,
      ),
    );
    const outcomes = await Promise.all(writes);
    expect(outcomes).toContain("ABORTED");
    expect((await admin.getModel({ model: "ranker" })).model?.owner).toBe(outcomes.find((text) => text !== "ABORTED"));
  });

  it.each([
    [{ name: "模型" }, 'INVALID_ARGUMENT: model.name "模型" must match'],
    [{ name: "a".repeat(64) }, "INVALID_ARGUMENT: model.name"],
    [{ name: "../x" }, "INVALID_ARGUMENT: model.name"],
    [
      { name: "ranker", slo: { deadlineMs: 600_001 } },
      "INVALID_ARGUMENT: model: slo.deadline_ms 600001 is above 600000",
    ],
    [{ name: "ranker", slo: { availability: Number.NaN } }, "INVALID_ARGUMENT: model: slo.availability is NaN"],
    [{ name: "ranker", owner: "o".repeat(257) }, "INVALID_ARGUMENT: model: owner has 257 characters"],
  ])("%# are refused with the field", async (model, problem) => {
    expect(await refusal(admin.putModel({ model, expectedRevision: -1n }))).toContain(problem);
    expect(fixture.test.registry.state.models.size).toBe(0);
  });

  it("show their versions, stages, aliases and replicas, sorted", async () => {
    await fixture.putRanker();
    await fixture.register(100n);
    await fixture.register(41n, STAGE_PRODUCTION);
    await admin.setAlias({ alias: { model: "ranker", alias: "prod", split: [{ version: 41n, weight: 1 }] } });
    const replica = {
      model: "ranker",
      version: 41n,
      id: "r1",
      address: "127.0.0.1:19000",
      loadedDigest: "",
      detail: "",
      tls: false,
    };
    await fixture.test.put({ kind: "replica", value: { ...replica, state: ReplicaState.REPLICA_STATE_READY } });
    const shown = await admin.getModel({ model: "ranker" });
    expect(shown.versions.map(({ version, stage, replicas }) => [version?.version, stage, replicas.length])).toEqual([
      [41n, STAGE_PRODUCTION, 1],
      [100n, Stage.STAGE_REGISTERED, 0],
    ]);
    expect(shown.aliases.map(({ alias }) => alias)).toEqual(["prod"]);
    expect((await admin.listModels()).models).toEqual([shown]);
    expect(await refusal(admin.getModel({ model: "echo" }))).toBe(
      "NOT_FOUND: model: echo is not registered; put the model first, or check the name",
    );
  });
});
