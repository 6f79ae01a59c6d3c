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

describe("versions", () => {
  it("are made once, and the same content again is the same request again", async () => {
    await fixture.putRanker();
    const version = { model: "ranker", version: 41n, serving: SERVING, lineage: { run: "7" } };
    const { revision } = await admin.registerVersion({ version });
    expect(await admin.registerVersion({ version })).toEqual({ revision });
    expect(await refusal(admin.registerVersion({ version: { ...version, lineage: { run: "8" } } }))).toContain(
      "ALREADY_EXISTS: version: ranker:41 is registered with other content, and a version never changes",
    );
    expect(fixture.test.registry.stageHead("ranker:41")?.seq).toBe(1n);
    const [shown] = (await admin.getModel({ model: "ranker" })).versions;
    expect(shown).toMatchObject({ stage: Stage.STAGE_REGISTERED, version: { lineage: { run: "7" } } });
    expect(shown?.version?.createdAt).toBeInstanceOf(Date);
  });

  it.each([
    [{ model: "echo", version: 1n, serving: SERVING }, "NOT_FOUND: version.model: echo is not registered"],
    [{ model: "ranker", version: 0n, serving: SERVING }, "INVALID_ARGUMENT: version.version is 0"],
    [{ model: "ranker", version: 1n }, "INVALID_ARGUMENT: version: serving is missing"],
    [
      {
        model: "ranker",
        version: 1n,
        serving: { ...SERVING, inputs: [{ name: "x", datatype: "FP31", shape: [-1n] }] },
      },
      'INVALID_ARGUMENT: version: serving.inputs[0].datatype is "FP31"',
    ],
    [{ model: "ranker", version: 1n, serving: SERVING, artifactDigest: "latest" }, "artifact_digest"],
    [{ model: "ranker", version: 1n, serving: SERVING, createdAt: new Date(8.64e15) }, "INVALID_ARGUMENT"],
  ])("%# are refused with the field", async (version, problem) => {
    await fixture.putRanker();
    expect(await refusal(admin.registerVersion({ version }))).toContain(problem);
    expect(fixture.test.registry.state.versions.size).toBe(0);
  });

  it("move through the stages in order, each move an event of its own", async () => {
    await fixture.putRanker();
    await fixture.register(41n);
    const move = (stage: Stage) => admin.moveStage({ model: "ranker", version: 41n, stage, reason: "looks good" });
    expect(await refusal(move(STAGE_PRODUCTION))).toContain("FAILED_PRECONDITION: ranker:41: stage");
    const { event } = await move(STAGE_STAGING);
    expect(event).toMatchObject({ seq: 2n, stage: STAGE_STAGING, actor: "admin token", reason: "looks good" });
    expect(await refusal(move(STAGE_STAGING))).toContain("in stage staging already");
    await move(STAGE_PRODUCTION);
    const { items } = await fixture.test.store.list("/servemesh/v1/stages/ranker/41/");
    expect(items.map(({ value }) => JSON.parse(value).stage)).toEqual([
      "STAGE_REGISTERED",
      "STAGE_STAGING",
      "STAGE_PRODUCTION",
    ]);
    expect(await refusal(admin.moveStage({ model: "ranker", version: 9n, stage: STAGE_STAGING }))).toContain(
      "NOT_FOUND",
    );
    expect(
      await refusal(
        admin.moveStage({ model: "ranker", version: 41n, stage: STAGE_ARCHIVED, reason: "r".repeat(1_025) }),
      ),
    ).toContain("INVALID_ARGUMENT: reason has 1025 characters");
  });

  it("let exactly one of two equal moves win", async () => {
    await fixture.putRanker();
    await fixture.register(41n);
    const moves = [1, 2].map(() =>
      admin.moveStage({ model: "ranker", version: 41n, stage: STAGE_STAGING }).then(
        () => "moved",
        (error: AdminError) => error.status,
      ),
    );
    expect((await Promise.all(moves)).sort()).toEqual(["FAILED_PRECONDITION", "moved"]);
    expect(fixture.test.registry.stageHead("ranker:41")?.seq).toBe(2n);
  });

  it("are not archived while an alias routes to them", async () => {
    await fixture.putRanker();
    for (const version of [41n, 42n, 43n, 44n]) await fixture.register(version, STAGE_PRODUCTION);
    const split = [
      { version: 41n, weight: 1 },
      { version: 44n, weight: 0 },
    ];
    const alias = { model: "ranker", alias: "prod", split, fallback: ["ranker:42"], shadow: { version: 43n } };
    await admin.setAlias({ alias });
    const archive = (version: bigint) => admin.moveStage({ model: "ranker", version, stage: STAGE_ARCHIVED });
    for (const version of [41n, 42n, 43n]) {
      expect(await refusal(archive(version))).toContain("ranker@prod still routes to it; take it out there");
    }
    await archive(44n);
  });
});
