import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatKey, parseKey, type RecordKey } from "./keys.js";

const model = fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,62}$/);
const alias = fc.stringMatching(/^[a-z][a-z0-9-]{0,31}$/);
const version = fc.bigInt({ min: 1n, max: 2n ** 63n - 1n });
const seq = fc.bigInt({ min: 1n, max: 99_999_999n });
const id = fc.stringMatching(/^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$/);

const key: fc.Arbitrary<RecordKey> = fc.oneof(
  fc.record({ kind: fc.constant("model" as const), model }),
  fc.record({ kind: fc.constant("version" as const), model, version }),
  fc.record({ kind: fc.constant("stage" as const), model, version, seq }),
  fc.record({ kind: fc.constant("alias" as const), model, alias }),
  fc.record({ kind: fc.constant("tenant" as const), tenant: model }),
  fc.record({ kind: fc.constant("replica" as const), model, version, id }),
  fc.record({ kind: fc.constant("gateway" as const), gateway: model }),
);

describe("registry keys", () => {
  it("come back from their text, so no two share one", () => {
    fc.assert(
      fc.property(key, (value) => {
        expect(parseKey(formatKey(value))).toEqual({ ok: true, key: value });
      }),
    );
  });

  it("never throw and never read one text as another", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.string().map((text) => `/servemesh/v1/${text}`),
        ),
        (text) => {
          const result = parseKey(text);
          if (result.ok) expect(formatKey(result.key)).toBe(text);
        },
      ),
    );
  });

  it("keep apart what looks alike", () => {
    expect(formatKey({ kind: "version", model: "ranker-4", version: 1n })).not.toBe(
      formatKey({ kind: "version", model: "ranker", version: 41n }),
    );
  });

  it.each([
    "models/Ranker",
    "models/",
    "models/..",
    "models/a/b",
    "models/ibm/granite:3b",
    "models/模型",
    `models/${"a".repeat(64)}`,
    "models/a\0",
    "versions/ranker/041",
    "versions/ranker/0",
    "versions/ranker/latest",
    "versions/ranker/9223372036854775808",
    "stages/ranker/41/1",
    "stages/ranker/41/00000000",
    "aliases/ranker/41",
    "replicas/ranker/41/../x",
    "replicas/ranker/41/",
    "surprises/a",
    "",
  ])("refuse %j", (path) => {
    expect(parseKey(`/servemesh/v1/${path}`)).toMatchObject({ ok: false, isReserved: false });
  });

  it.each(["deployments/ranker/41", "trust/root", "leader/rollout/1"])("leave %s to later parts", (path) => {
    expect(parseKey(`/servemesh/v1/${path}`)).toEqual({ ok: false, isReserved: true });
  });
});
