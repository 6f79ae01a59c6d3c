import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatModelRef, isAliasName, isModelName, type ModelRef, parseModelRef, parseVersion } from "./model-ref.js";

interface Vectors {
  readonly valid: readonly { text: string; model: string; alias?: string; version?: string }[];
  readonly invalid: readonly { text: string; part: "model" | "alias" | "version" | "pins" }[];
}

const vectors = JSON.parse(readFileSync(new URL("../vectors/model-ref.json", import.meta.url), "utf8")) as Vectors;

const SAYS = {
  model: "the model name must",
  alias: "the alias after",
  version: "the version after",
  pins: "only one pin",
};

const modelNames = fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,62}$/);
const aliasNames = fc.stringMatching(/^[a-z][a-z0-9-]{0,31}$/);
const refs: fc.Arbitrary<ModelRef> = fc.oneof(
  modelNames.map((model) => ({ model })),
  fc.tuple(modelNames, aliasNames).map(([model, alias]) => ({ model, pin: { kind: "alias" as const, alias } })),
  fc
    .tuple(modelNames, fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }))
    .map(([model, version]) => ({ model, pin: { kind: "version" as const, version } })),
);

describe("parseModelRef", () => {
  it.each(vectors.valid)("takes $text", ({ text, model, alias, version }) => {
    const expected: ModelRef =
      alias !== undefined
        ? { model, pin: { kind: "alias", alias } }
        : version !== undefined
          ? { model, pin: { kind: "version", version: BigInt(version) } }
          : { model };
    expect(parseModelRef(text)).toEqual({ ok: true, ...expected });
    expect(formatModelRef(expected)).toBe(text);
  });

  it.each(vectors.invalid)("refuses $text for its $part", ({ text, part }) => {
    const result = parseModelRef(text);
    expect(result).toMatchObject({ ok: false, problem: expect.stringContaining(SAYS[part]) });
  });

  it("gives back what formatModelRef wrote", () => {
    fc.assert(
      fc.property(refs, (ref) => {
        expect(parseModelRef(formatModelRef(ref))).toEqual({ ok: true, ...ref });
      }),
    );
  });

  it("never throws, and never takes a text that it would write differently", () => {
    const texts = fc.oneof(fc.string({ unit: "binary" }), fc.stringMatching(/^[a-zA-Z0-9._@:-]{0,80}$/));
    fc.assert(
      fc.property(texts, (text) => {
        const result = parseModelRef(text);
        if (result.ok) expect(formatModelRef(result)).toBe(text);
        else expect(result.problem).toMatch(/^[ -~]{1,400}$/);
      }),
    );
  });

  it("shows only the beginning of a 10 KiB text", () => {
    const result = parseModelRef("é".repeat(10_240));
    expect(result.ok ? "" : result.problem.length).toBeLessThan(800);
  });
});

describe("the parts", () => {
  it("knows names and aliases by themselves", () => {
    expect(isModelName("ranker@prod")).toBe(false);
    expect(isModelName("ranker\n")).toBe(false);
    expect(isAliasName("prod")).toBe(true);
    expect(isAliasName("prod\n")).toBe(false);
  });

  it("reads a version exactly or not at all", () => {
    expect(parseVersion("9007199254740993")).toBe(9007199254740993n);
    expect(parseVersion("041")).toBeUndefined();
    expect(parseVersion("9".repeat(1_000_000))).toBeUndefined();
  });
});
