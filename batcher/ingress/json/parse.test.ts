import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { PredictError } from "../../request.js";
import { parseJson } from "./parse.js";
import { isJsonArray, isJsonObject, JsonNumber, type JsonValue } from "./value.js";

const LIMITS = { maxJsonDepth: 32, maxJsonValues: 10_000 };

function parse(text: string | Buffer): JsonValue {
  return parseJson(Buffer.from(text as string), "body", LIMITS);
}

/** What JSON.parse would have made of it. */
function plain(value: JsonValue): unknown {
  if (value instanceof JsonNumber) return Number(value.text);
  if (isJsonArray(value)) return value.map(plain);
  if (isJsonObject(value)) {
    const out: Record<string, unknown> = Object.create(null);
    for (const [key, item] of value) out[key] = plain(item);
    return out;
  }
  return value;
}

function messageOf(text: string | Buffer): string {
  try {
    parse(text);
  } catch (error) {
    expect(error).toBeInstanceOf(PredictError);
    expect((error as PredictError).reason).toBe("bad_input");
    return (error as PredictError).message;
  }
  throw new Error(`accepted: ${text}`);
}

describe("parseJson", () => {
  it("agrees with JSON.parse on every text that JSON.stringify writes", () => {
    fc.assert(
      fc.property(
        fc.json({ maxDepth: 6, stringUnit: "grapheme" }),
        fc.constantFrom(undefined, 2, "\t"),
        (text, space) => {
          const spaced = JSON.stringify(JSON.parse(text), null, space);
          expect(JSON.stringify(plain(parse(spaced)))).toBe(JSON.stringify(JSON.parse(spaced)));
        },
      ),
      { numRuns: 500 },
    );
  });

  it("agrees with JSON.parse on what is no JSON", () => {
    const pieces = [
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      '"',
      "a",
      "\\",
      "u00e9",
      "1",
      "-",
      ".",
      "e5",
      "0",
      "true",
      "null",
      " ",
    ];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 12 }), (tokens) => {
        const text = tokens.join("");
        let native: unknown;
        try {
          native = JSON.parse(text);
        } catch {
          messageOf(text);
          return;
        }
        // Duplicate keys are the one thing that JSON.parse takes and this parser does not.
        if (/"(.*)":.*"\1":/.test(text)) return;
        expect(JSON.stringify(plain(parse(text)))).toBe(JSON.stringify(native));
      }),
      { numRuns: 3000 },
    );
  });

  it("keeps the text of numbers, C017", () => {
    const texts = ["9007199254740993", "18446744073709551615", "-0.0", "1e400"];
    const numbers = parse(`[${texts}]`);
    const seen = isJsonArray(numbers) ? numbers.filter((item) => item instanceof JsonNumber) : [];
    expect(seen.map(({ text, integral }) => [text, integral])).toEqual([
      ["9007199254740993", true],
      ["18446744073709551615", true],
      ["-0.0", false],
      ["1e400", false],
    ]);
  });

  it("reads every number as the same double as JavaScript does", () => {
    const digits = fc.stringMatching(/^-?(0|[1-9]\d{0,20})(\.\d{1,22})?([eE][+-]?\d{1,3})?$/);
    fc.assert(
      fc.property(fc.oneof(digits, fc.double({ noNaN: true, noDefaultInfinity: true }).map(String)), (text) => {
        const number = parse(text);
        expect(number instanceof JsonNumber && Object.is(number.value, Number(text))).toBe(true);
        expect(number instanceof JsonNumber && number.text).toBe(text);
      }),
      { numRuns: 5000 },
    );
  });

  it.each([
    ['{"data":[NaN,1]}', "NaN is not a JSON number at byte 9"],
    ['{"data":[-Infinity]}', "-Infinity is not a JSON number at byte 9"],
    ["[1,Infinity]", "Infinity is not a JSON number at byte 3"],
    ["[nan]", "nan is not a JSON number at byte 1"],
    ['{"é":NaN}', "NaN is not a JSON number at byte 6"],
  ])("C016: names the offset of %s", (text, expected) => {
    expect(messageOf(text)).toContain(expected);
  });

  it.each([
    ['{"a":[1,2', "the text ends too early at byte 9"],
    ['"abc', "the text ends inside a string at byte 4"],
    ['{"a":1,"a":2}', 'duplicate key "a" at byte 7'],
    ['{"a":1,"\\u0061":2}', 'duplicate key "a" at byte 7'],
    ["01", 'unexpected "1" at byte 1'],
    ["1.", "the text ends too early at byte 2"],
    ["-", "the text ends too early at byte 1"],
    ["[1,]", 'unexpected "]" at byte 3'],
    ["{a:1}", 'unexpected "a" at byte 1'],
    ['"\n"', "a bare control character in a string at byte 1"],
    ['"\\x"', "an unknown escape in a string at byte 1"],
    ['"\\u12g4"', "an unknown escape in a string at byte 1"],
    ['"\\ud800"', "half a surrogate pair at byte 0"],
    ["", "the text ends too early at byte 0"],
    ["\ufeff{}", 'unexpected "\\ufeff" at byte 0'],
    [`${"[".repeat(33)}1${"]".repeat(33)}`, "nesting deeper than 32 at byte 32"],
    ["1".repeat(513), "a number longer than 512 characters at byte 0"],
    [`[${"1,".repeat(10_000)}1]`, "more than 10000 values"],
  ])("refuses %j", (text, expected) => {
    expect(messageOf(text)).toContain(expected);
  });

  it("refuses bytes that are not UTF-8", () => {
    expect(messageOf(Buffer.from([0x22, 0xff, 0x22]))).toBe("body is not valid UTF-8; send JSON in UTF-8");
  });

  it("takes a pair of escaped surrogates and keys that mean something to JavaScript", () => {
    expect(parse('"\\ud83d\\ude00"')).toBe("😀");
    const value = parse('{"__proto__":{"polluted":true}}');
    expect(isJsonObject(value) && value.has("__proto__")).toBe(true);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it("takes 32 levels", () => {
    expect(parse(`${"[".repeat(32)}1${"]".repeat(32)}`)).toBeDefined();
  });

  it("refuses 10,000 random texts with bad_input or takes them", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        try {
          parseJson(Buffer.from(bytes), "body", LIMITS);
        } catch (error) {
          expect(error).toBeInstanceOf(PredictError);
        }
      }),
      { numRuns: 10_000 },
    );
  });
});
