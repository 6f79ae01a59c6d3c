import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { compileGateConfig } from "../../config/compile.js";
import type { GateConfig } from "../../config/gate-config.js";
import { loadGateModule } from "../../modules/files.js";
import type { HeaderList } from "../header-map.js";
import { createMockHost, type MockHost } from "../mock-host.js";
import { digestOf, grpcHeaders, judge, named, restHeaders } from "./fixture.js";
import { type Ask, decide } from "./oracle.js";

// Much work, whatever the machine: the time limit only catches a loop without end.
vi.setConfig({ testTimeout: 300_000 });

// Few names, so that requests hit, miss and almost hit.
const MODELS = ["a", "ab", "ranker", "ranker-lite", "m".repeat(63)];
const ALIASES = ["prod", "canary", "p", "z".repeat(32)];
const TENANTS = ["acme", "beta", "gamma"];
const KEYS = ["k0", "k1", "k2", "k3", "k4", "k5"];
const VERSIONS = [1n, 2n, 41n, 9223372036854775807n];

const deadline = fc.constantFrom(1, 80, 300, 2000, 600_000);
const listOf = (names: readonly string[]) =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(["*"]) }, { weight: 1, arbitrary: fc.subarray([...names, "gone"]) });
/** Mostly absent, so that most requests come far. */
const rarely = <T>(arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 7, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

const alias = fc.record(
  { name: fc.constantFrom(...ALIASES), deadlineMs: deadline, shadowCluster: fc.constantFrom("model/ranker/43", "s") },
  { requiredKeys: ["name"] },
);
const model = fc.record({
  name: fc.constantFrom(...MODELS),
  defaultAlias: fc.constantFrom(...ALIASES),
  deadlineMs: deadline,
  stickyHeader: fc.constantFrom("", "x-predict-sticky-key"),
  allowedTenants: listOf(TENANTS),
  aliases: fc.uniqueArray(alias, { selector: ({ name }) => name, maxLength: 4 }),
  versions: fc.subarray(VERSIONS),
});
const tenants = fc
  .tuple(
    fc.uniqueArray(
      fc.record({
        name: fc.constantFrom(...TENANTS),
        priority: fc.constantFrom("interactive" as const, "batch" as const),
        models: listOf(MODELS),
      }),
      { selector: ({ name }) => name, minLength: 1, maxLength: 3 },
    ),
    fc.shuffledSubarray(KEYS, { minLength: 3 }),
  )
  .map(([list, keys]) =>
    list.map((tenant, index) => ({ ...tenant, keyDigests: keys.filter((_, at) => at % 3 === index).map(digestOf) })),
  );
const config: fc.Arbitrary<GateConfig> = fc.record({
  models: fc.uniqueArray(model, { selector: ({ name }) => name, minLength: 2, maxLength: 5 }),
  tenants,
});

const pinText = fc.oneof(
  { weight: 3, arbitrary: fc.constant("") },
  { weight: 2, arbitrary: fc.constantFrom(...ALIASES).map((name) => `@${name}`) },
  { weight: 2, arbitrary: fc.constantFrom(...VERSIONS).map((version) => `:${version}`) },
  { weight: 1, arbitrary: fc.constantFrom("@nosuch", "@Bad", ":7", ":0", "@prod@prod") },
);
const modelText = fc.oneof(
  { weight: 7, arbitrary: fc.constantFrom(...MODELS) },
  { weight: 1, arbitrary: fc.constantFrom("nosuch", "Bad", "m".repeat(64)) },
);
const ask: fc.Arbitrary<Ask> = fc.record({
  key: fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(...KEYS) },
    { weight: 1, arbitrary: fc.constantFrom("wrong", undefined) },
  ),
  reference: fc.tuple(modelText, pinText).map(([name, pin]) => name + pin),
  version: rarely(fc.constantFrom("1", "41", "041", "7", "9223372036854775808")),
  label: rarely(fc.constantFrom("prod", "canary", "nosuch", "Bad")),
  timeoutMs: fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(undefined, 1, 79, 80, 81, 599_999, 600_000) },
    { weight: 1, arbitrary: fc.constant(0) },
  ),
  priority: fc.constantFrom(undefined, undefined, "batch", "interactive", "other"),
  sticky: fc.constantFrom(undefined, "u-196", "\xe9", ""),
});

function headersOf({ key, timeoutMs, priority, sticky }: Ask): HeaderList {
  const present = {
    "x-api-key": key,
    "x-predict-timeout-ms": timeoutMs?.toString(),
    "x-predict-priority": priority,
    "x-predict-sticky-key": sticky,
  };
  return Object.entries(present).filter((pair): pair is [string, string] => pair[1] !== undefined);
}

/** The call through each door that can express it. */
function throughEachDoor(host: MockHost, ask: Ask) {
  const headers = headersOf(ask);
  const body = Buffer.from("{}");
  const judged: [string, ReturnType<typeof judge>][] = [];
  const escaped = ask.reference.replace("@", "%40").replace(":", "%3A");
  if (ask.version === undefined || ask.label === undefined) {
    const pin =
      ask.version === undefined ? (ask.label === undefined ? "" : `/labels/${ask.label}`) : `/versions/${ask.version}`;
    judged.push(["v1", judge(host, restHeaders("POST", `/v1/models/${ask.reference}${pin}:predict`, headers), body)]);
    judged.push(["v1 escaped", judge(host, restHeaders("POST", `/v1/models/${escaped}${pin}:predict`, headers), body)]);
  }
  if (ask.label === undefined) {
    const pin = ask.version === undefined ? "" : `/versions/${ask.version}`;
    judged.push(["v2", judge(host, restHeaders("POST", `/v2/models/${escaped}${pin}/infer`, headers), body)]);
    judged.push(["gRPC", judge(host, grpcHeaders("ModelInfer", headers), named(ask.reference, ask.version))]);
  }
  return judged;
}

describe("the gate and the oracle", () => {
  it("agree on random configurations and requests, at every door", () => {
    let passed = 0;
    const refused = new Map<string, number>();
    // One VM for all, so that reconfiguring is part of the test.
    const host = createMockHost(loadGateModule().bytes);
    fc.assert(
      fc.property(config, fc.array(ask, { minLength: 8, maxLength: 24 }), (config, asks) => {
        expect(host.configure(compileGateConfig(config))).toBe(true);
        for (const ask of asks) {
          const expected = decide(config, ask);
          for (const [door, judged] of throughEachDoor(host, ask)) {
            if ("reason" in expected) {
              expect(judged.reason, door).toBe(expected.reason);
              refused.set(expected.reason, (refused.get(expected.reason) ?? 0) + 1);
            } else {
              const mesh = [...judged.headers].filter(([name]) => /^x-servemesh-|timeout/.test(name));
              expect(Object.fromEntries(mesh), door).toEqual(expected.headers);
              passed++;
            }
          }
        }
      }),
      { numRuns: 400, seed: 20_261_130 },
    );
    // Random requests that are all refused would prove little.
    expect(passed).toBeGreaterThan(500);
    expect([...refused.keys()].sort()).toEqual([
      "bad_input",
      "deadline",
      "forbidden",
      "model_not_found",
      "unauthenticated",
    ]);
  });

  it("agree that thousands of models and tenants are found, each by its own name and key", () => {
    const names = Array.from({ length: 3000 }, (_, index) => `model-${index * 7919}`);
    const large: GateConfig = {
      models: names.map((name, index) => ({
        name,
        defaultAlias: "prod",
        deadlineMs: 1 + index,
        stickyHeader: "",
        allowedTenants: [`t-${index}`, `t-${(index + 1) % names.length}`],
        aliases: [{ name: "prod" }],
        versions: [BigInt(index + 1)],
      })),
      tenants: names.map((_, index) => ({
        name: `t-${index}`,
        keyDigests: [digestOf(`key-${index}`)],
        priority: "interactive" as const,
        models: ["*"],
      })),
    };
    const host = createMockHost(loadGateModule().bytes);
    expect(host.configure(compileGateConfig(large))).toBe(true);
    names.forEach((name, index) => {
      const by = (tenant: number) =>
        judge(
          host,
          restHeaders("GET", `/v2/models/${name}:${index + 1}`, [["x-api-key", `key-${tenant % names.length}`]]),
        );
      expect(by(index).route).toBe(`${name}/${index + 1}`);
      expect(by(index).headers.get("grpc-timeout")).toBe(`${index + 1}m`);
      expect(by(index + 1).route).toBe(`${name}/${index + 1}`);
      expect(by(index + 2).reason).toBe("forbidden");
    });
  });

  it("agree with Node's SHA-256 on keys of every length that is hashed", () => {
    const keyOf = (length: number) =>
      Array.from({ length }, (_, index) => String.fromCharCode(33 + ((index * 31 + length) % 94))).join("");
    const tenants = Array.from({ length: 32 }, (_, index) => ({
      name: `t-${index}`,
      keyDigests: Array.from({ length: 16 }, (_, key) => digestOf(keyOf(index * 16 + key + 1))),
      priority: "interactive" as const,
      models: [],
    }));
    const host = createMockHost(loadGateModule().bytes);
    host.configure(compileGateConfig({ models: [], tenants }));
    for (let length = 1; length <= 512; length++) {
      const judged = judge(host, restHeaders("GET", "/v2", [["x-api-key", keyOf(length)]]));
      expect(judged.headers.get("x-servemesh-tenant"), `${length} characters`).toBe(
        `t-${Math.floor((length - 1) / 16)}`,
      );
    }
  });
});
