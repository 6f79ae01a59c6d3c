import { describe, expect, it } from "vitest";
import type { RegistryState } from "../registry/state.js";
import type { AliasPlan, MeshPlan, ModelPlan } from "./mesh-plan.js";
import { planMesh } from "./plan.js";
import {
  rankerFixture,
  STAGE_ARCHIVED,
  STAGE_PRODUCTION,
  STAGE_REGISTERED,
  STAGE_STAGING,
  type StateFixture,
  stateOf,
} from "./state-fixture.js";

function modelOf(plan: MeshPlan, name: string): ModelPlan {
  const model = plan.models.find((candidate) => candidate.model === name);
  if (model === undefined) throw new Error(`no model ${name} in the plan`);
  return model;
}

function aliasOf(plan: MeshPlan, reference: string): AliasPlan {
  const [model = "", alias = ""] = reference.split("@");
  const found = modelOf(plan, model).aliases.find((candidate) => candidate.alias === alias);
  if (found === undefined) throw new Error(`no alias ${reference} in the plan`);
  return found;
}

function groupsOf(plan: MeshPlan, reference: string): string[] {
  return aliasOf(plan, reference).route.groups.map((group) =>
    group.clusters.map(({ cluster, weight }) => `${cluster.slice("model/".length)}=${weight}`).join(" "),
  );
}

function messages(plan: MeshPlan, subject: string, severity?: string): string[] {
  return plan.findings
    .filter((finding) => finding.subject === subject && (severity === undefined || finding.severity === severity))
    .map((finding) => finding.message);
}

/** A ranker whose prod alias is `split`, with given stages and ready versions. */
function ranker(
  split: readonly (readonly [number, number | undefined])[],
  stages: Record<number, number>,
  ready: readonly number[],
  more: Partial<StateFixture> = {},
): RegistryState {
  return stateOf({
    models: [{ name: "ranker", slo: { deadlineMs: 100 } }],
    versions: Object.fromEntries(Object.entries(stages).map(([version, stage]) => [`ranker:${version}`, stage])),
    aliases: [
      {
        model: "ranker",
        alias: "prod",
        split: split.map(([version, weight]) => ({
          version: BigInt(version),
          ...(weight === undefined ? {} : { weight }),
        })),
      },
    ],
    ready: Object.fromEntries(ready.map((version) => [`ranker:${version}`, [`127.0.0.1:${19_000 + version}`]])),
    ...more,
  });
}

describe("planMesh on the common case", () => {
  const plan = planMesh(stateOf(rankerFixture()));

  it("puts the split first and the fallback next, with the shadow beside", () => {
    expect(groupsOf(plan, "ranker@prod")).toEqual(["ranker/41=95 ranker/42=5", "ranker-lite/1=1"]);
    const { route } = aliasOf(plan, "ranker@prod");
    expect(route.key).toBe("ranker/prod");
    expect(route.first).toEqual(["ranker:41", "ranker:42"]);
    expect(route.shadow).toEqual({ cluster: "model/ranker/43", timeoutMs: 4_000 });
  });

  it("pins every version in stage staging or production", () => {
    expect(modelOf(plan, "ranker").pinned.map((route) => route.key)).toEqual(["ranker/41", "ranker/42", "ranker/43"]);
  });

  it("tells the gate what may be asked for and by whom", () => {
    expect(plan.gate.models[0]).toEqual({
      name: "ranker",
      defaultAlias: "prod",
      deadlineMs: 2_000,
      allowedTenants: ["*"],
      stickyHeader: "x-predict-sticky-key",
      aliases: [{ name: "prod", deadlineMs: 2_000, shadowCluster: "model/ranker/43" }],
      versions: [41n, 42n, 43n],
    });
    expect(plan.gate.tenants).toEqual([
      { name: "acme", keyDigests: [Buffer.alloc(32, 7)], models: ["*"], priority: "interactive" },
    ]);
  });

  it("has all ready batchers in the server cluster and only the standing finding", () => {
    expect(plan.server).toHaveLength(5);
    expect(plan.findings.map((finding) => finding.message)).toEqual(["signatures are not checked yet"]);
  });

  it("gives equal plans for equal states", () => {
    expect(planMesh(stateOf(rankerFixture()))).toEqual(plan);
    expect(planMesh(stateOf(rankerFixture()), plan)).toEqual(plan);
  });
});

describe("weights", () => {
  const both = { 41: STAGE_PRODUCTION, 42: STAGE_PRODUCTION };
  it.each([
    [
      [
        [41, 100],
        [42, 0],
      ],
      ["ranker/41=100"],
    ],
    [
      [
        [41, 0],
        [42, 100],
      ],
      ["ranker/42=100"],
    ],
    [[[41, 0]], []],
    [[], []],
  ] as const)("0 takes a version out: %j", (split, expected) => {
    expect(groupsOf(planMesh(ranker(split, both, [41, 42])), "ranker@prod")).toEqual(expected);
  });

  it("refuses an absent weight instead of guessing", () => {
    const plan = planMesh(
      ranker(
        [
          [41, 100],
          [42, undefined],
        ],
        both,
        [41, 42],
      ),
    );
    expect(groupsOf(plan, "ranker@prod")).toEqual([]);
    expect(messages(plan, "ranker@prod", "error")).toEqual(["split: version 42 has no weight; write 0 to take it out"]);
  });

  it("refuses a version that is listed twice", () => {
    const plan = planMesh(
      ranker(
        [
          [41, 1],
          [41, 2],
        ],
        both,
        [41],
      ),
    );
    expect(messages(plan, "ranker@prod", "error")[0]).toContain("version 41 is listed twice");
  });
});

describe("readiness", () => {
  const fixture = rankerFixture();
  const without = (...gone: string[]): RegistryState =>
    stateOf({
      ...fixture,
      ready: Object.fromEntries(Object.entries(fixture.ready ?? {}).filter(([key]) => !gone.includes(key))),
    });

  it("drops versions without endpoints from the split", () => {
    const plan = planMesh(without("ranker:42"));
    expect(groupsOf(plan, "ranker@prod")).toEqual(["ranker/41=95", "ranker-lite/1=1"]);
    expect(aliasOf(plan, "ranker@prod").route.first).toEqual(["ranker:41", "ranker:42"]);
  });

  it("moves the fallback up when the whole split is gone", () => {
    expect(groupsOf(planMesh(without("ranker:41", "ranker:42")), "ranker@prod")).toEqual(["ranker-lite/1=1"]);
  });

  it("drops a fallback without endpoints", () => {
    expect(groupsOf(planMesh(without("ranker-lite:1")), "ranker@prod")).toEqual(["ranker/41=95 ranker/42=5"]);
  });

  it("keeps the route and says why when nothing is left", () => {
    const plan = planMesh(without("ranker:41", "ranker:42", "ranker-lite:1"));
    expect(groupsOf(plan, "ranker@prod")).toEqual([]);
    expect(messages(plan, "ranker@prod").join()).toContain("calls are answered 503 unavailable");
    expect(plan.gate.models.map((model) => model.name)).toEqual(["ranker", "ranker-lite"]);
  });

  it("does not take a starting or draining replica, nor a host name, for an endpoint", () => {
    const state = stateOf({ ...fixture, ready: { "ranker:41": ["batcher-1:19000", "[::1]:19001"] } });
    const plan = planMesh(state);
    expect(plan.server).toEqual([{ ip: "::1", port: 19_001 }]);
    expect(messages(plan, "replicas/ranker/41/ranker-41-0", "error")[0]).toContain('"batcher-1:19000" is not ip:port');
  });
});

describe("stages", () => {
  it.each([
    ["a registered version", { 41: STAGE_REGISTERED }, "is in stage registered but must be in production"],
    ["a staging primary", { 41: STAGE_STAGING }, "is in stage staging but must be in production"],
    ["an archived version", { 41: STAGE_ARCHIVED }, "is in stage archived but must be in production"],
    ["an unknown version", {}, "is not registered"],
  ] as const)("refuses %s as primary", (_what, stages, text) => {
    const plan = planMesh(ranker([[41, 100]], stages, [41]));
    expect(groupsOf(plan, "ranker@prod")).toEqual([]);
    expect(messages(plan, "ranker@prod", "error")[0]).toContain(text);
  });

  it("lets a canary in staging have a quarter and no more", () => {
    const stages = { 41: STAGE_PRODUCTION, 42: STAGE_STAGING };
    expect(
      groupsOf(
        planMesh(
          ranker(
            [
              [41, 75],
              [42, 25],
            ],
            stages,
            [41, 42],
          ),
        ),
        "ranker@prod",
      ),
    ).toEqual(["ranker/41=75 ranker/42=25"]);
    const plan = planMesh(
      ranker(
        [
          [41, 74],
          [42, 26],
        ],
        stages,
        [41, 42],
      ),
    );
    expect(groupsOf(plan, "ranker@prod")).toEqual(["ranker/41=74"]);
    expect(messages(plan, "ranker@prod", "error")[0]).toContain("at most 25 % of the traffic, not 26 %");
  });

  it("lets a version with weight 0 be archived", () => {
    const plan = planMesh(
      ranker(
        [
          [41, 100],
          [40, 0],
        ],
        { 40: STAGE_ARCHIVED, 41: STAGE_PRODUCTION },
        [41],
      ),
    );
    expect(messages(plan, "ranker@prod", "error")).toEqual([]);
  });

  it.each([
    [
      "names a version that is not in production",
      "ranker-lite:1",
      { "ranker-lite:1": STAGE_STAGING },
      "must be in production",
    ],
    ["names no version", "ranker-lite@prod", {}, "names no version"],
    ["has other outputs", "other:1", { "other:1": STAGE_PRODUCTION }, "has other outputs than ranker:41"],
    ["is no reference", "Ranker:1", {}, "the model name must match"],
  ] as const)("refuses a fallback that %s", (_what, reference, versions, text) => {
    const fixture = rankerFixture();
    const [alias] = fixture.aliases ?? [];
    const state = stateOf({
      ...fixture,
      versions: { ...fixture.versions, ...versions },
      serving: { "other:1": { inputs: [{ name: "features", datatype: "FP32", shape: [-1n, 4n] }], outputs: [] } },
      aliases: [{ ...alias, fallback: [reference] }],
    });
    const plan = planMesh(state);
    expect(messages(plan, "ranker@prod", "error")[0]).toContain(text);
    expect(groupsOf(plan, "ranker@prod")).toEqual(["ranker/41=95 ranker/42=5"]);
  });

  it("refuses an archived shadow", () => {
    const fixture = rankerFixture();
    const plan = planMesh(stateOf({ ...fixture, versions: { ...fixture.versions, "ranker:43": STAGE_ARCHIVED } }));
    expect(messages(plan, "ranker@prod", "error")[0]).toContain("shadow: ranker:43 is in stage archived");
    expect(aliasOf(plan, "ranker@prod").route.shadow).toBeUndefined();
  });
});

describe("last good", () => {
  const good = planMesh(stateOf(rankerFixture()));

  it("stays when today's record is refused, and takes part in readiness", () => {
    const fixture = rankerFixture();
    const bad = {
      ...fixture,
      versions: { ...fixture.versions, "ranker:42": STAGE_ARCHIVED },
      ready: { "ranker:42": ["127.0.0.1:1"] },
    };
    const plan = planMesh(stateOf(bad), good);
    expect(aliasOf(plan, "ranker@prod").isLastGood).toBe(true);
    expect(groupsOf(plan, "ranker@prod")).toEqual(["ranker/42=5"]);
    expect(plan.clusters.map((cluster) => cluster.name)).toContain("model/ranker/42");
  });

  it("stays when the record became unreadable, and goes when it was deleted", () => {
    const fixture = rankerFixture();
    const aliases = (fixture.aliases ?? []).filter((alias) => alias.model !== "ranker");
    const unreadable = {
      severity: "error",
      subject: "/servemesh/v1/aliases/ranker/prod",
      message: "split: not a list",
    } as const;
    const kept = planMesh(stateOf({ ...fixture, aliases, findings: [unreadable] }), good);
    expect(groupsOf(kept, "ranker@prod")).toEqual(groupsOf(good, "ranker@prod"));
    expect(modelOf(planMesh(stateOf({ ...fixture, aliases }), good), "ranker").aliases).toEqual([]);
  });

  it("keeps a model whose record became unreadable, and forgets a deleted one", () => {
    const fixture = rankerFixture();
    const models = (fixture.models ?? []).filter((model) => model.name !== "ranker");
    const unreadable = { severity: "error", subject: "ranker", message: "slo: not a message" } as const;
    const names = (plan: MeshPlan): string[] => plan.models.map((model) => model.model);
    expect(names(planMesh(stateOf({ ...fixture, models, findings: [unreadable] }), good))).toEqual([
      "ranker",
      "ranker-lite",
    ]);
    expect(names(planMesh(stateOf({ ...fixture, models }), good))).toEqual(["ranker-lite"]);
  });

  it("waits for the replicas of a version that is newly named, while the old split serves", () => {
    const stages = { 41: STAGE_PRODUCTION, 44: STAGE_PRODUCTION };
    const before = planMesh(ranker([[41, 100]], stages, [41]));
    const early = planMesh(ranker([[44, 100]], stages, [41]), before);
    expect(groupsOf(early, "ranker@prod")).toEqual(["ranker/41=100"]);
    expect(messages(early, "ranker@prod", "warning")[0]).toContain("stay until ranker:44 has a ready replica");
    expect(aliasOf(early, "ranker@prod").isLastGood).toBe(true);
    const ready = planMesh(ranker([[44, 100]], stages, [41, 44]), early);
    expect(groupsOf(ready, "ranker@prod")).toEqual(["ranker/44=100"]);
    expect(aliasOf(ready, "ranker@prod").isLastGood).toBe(false);
  });

  it("does not keep a new shadow or deadline waiting for the split", () => {
    const fixture = rankerFixture();
    const [prod, ...others] = fixture.aliases ?? [];
    const versions = { ...fixture.versions, "ranker:44": STAGE_PRODUCTION };
    const next = { ...prod, split: [{ version: 44n, weight: 1 }], fallback: [], shadow: undefined, deadlineMs: 300 };
    const plan = planMesh(stateOf({ ...fixture, versions, aliases: [next, ...others] }), good);
    const { route, isLastGood } = aliasOf(plan, "ranker@prod");
    expect(isLastGood).toBe(true);
    expect(groupsOf(plan, "ranker@prod")).toEqual(groupsOf(good, "ranker@prod"));
    expect(route).toMatchObject({ shadow: undefined, deadlineMs: 300 });
  });

  it("does not wait for the sake of a split that serves nobody", () => {
    const stages = { 41: STAGE_PRODUCTION, 42: STAGE_PRODUCTION, 44: STAGE_PRODUCTION };
    const before = planMesh(ranker([[41, 100]], stages, [41]));
    const plan = planMesh(
      ranker(
        [
          [42, 50],
          [44, 50],
        ],
        stages,
        [42],
      ),
      before,
    );
    expect(groupsOf(plan, "ranker@prod")).toEqual(["ranker/42=50"]);
  });

  it("takes an alias that loses its replicas at its word: nothing is kept for it", () => {
    const stages = { 41: STAGE_PRODUCTION };
    const before = planMesh(ranker([[41, 100]], stages, [41]));
    expect(groupsOf(planMesh(ranker([[41, 100]], stages, []), before), "ranker@prod")).toEqual([]);
  });
});

describe("deadlines, gateways and other records", () => {
  it("lets an alias lower the model's deadline and never raise it", () => {
    const alias = { model: "ranker", alias: "prod", split: [{ version: 41n, weight: 1 }] };
    const deadlineOf = (deadlineMs: number): MeshPlan =>
      planMesh(ranker([], { 41: STAGE_PRODUCTION }, [41], { aliases: [{ ...alias, deadlineMs }] }));
    expect(aliasOf(deadlineOf(50), "ranker@prod").route.deadlineMs).toBe(50);
    expect(aliasOf(deadlineOf(500), "ranker@prod").route.deadlineMs).toBe(100);
    expect(messages(deadlineOf(500), "ranker@prod", "warning")[0]).toContain(
      "deadline_ms 500 is above the model's 100",
    );
  });

  it("opens no port without a gateway and keeps the last good one", () => {
    const fixture = rankerFixture();
    expect(planMesh(stateOf({ ...fixture, gateways: [] })).gateways).toEqual([]);
    const good = planMesh(stateOf(fixture));
    const bad = planMesh(
      stateOf({ ...fixture, gateways: [{ name: "default", httpAddress: "gateway.local", httpPort: 8080 }] }),
      good,
    );
    expect(bad.gateways).toEqual(good.gateways);
    expect(messages(bad, "gateways/default", "error")[0]).toContain('"gateway.local" is not an IP address');
  });

  it("warns of plain text beyond loopback and of a relative certificate", () => {
    const fixture = rankerFixture();
    const plan = planMesh(
      stateOf({
        ...fixture,
        gateways: [
          { name: "default", httpAddress: "0.0.0.0", httpPort: 80, tlsPort: 443, tlsCertificateFile: "a.pem" },
        ],
      }),
    );
    expect(messages(plan, "gateways/default").join("\n")).toContain("shows API keys");
    expect(messages(plan, "gateways/default").join("\n")).toContain("tls_certificate_file");
  });

  it("reports records without a model and a default alias that does not exist", () => {
    const plan = planMesh(stateOf({ models: [{ name: "a" }], versions: { "b:1": STAGE_PRODUCTION } }));
    expect(messages(plan, "b:1")[0]).toContain("not registered");
    expect(messages(plan, "a")[0]).toContain("a@prod does not exist");
  });

  it("never lets one bad model touch another", () => {
    const fixture = rankerFixture();
    const aliases = [...(fixture.aliases ?? []), { model: "bad", alias: "prod", split: [{ version: 1n }] }];
    const plan = planMesh(stateOf({ ...fixture, models: [...(fixture.models ?? []), { name: "bad" }], aliases }));
    expect(groupsOf(plan, "ranker@prod")).toEqual(["ranker/41=95 ranker/42=5", "ranker-lite/1=1"]);
    expect(groupsOf(plan, "bad@prod")).toEqual([]);
  });
});
