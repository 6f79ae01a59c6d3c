import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Datatype, Tensor } from "../request.js";
import { JsonNumber } from "./json/value.js";
import { tensorFromJson } from "./tensor-from-json.js";
import { elementTexts, float32Text, float64Text } from "./tensor-to-json.js";
import { byteElements, floats } from "./testing/loopback.js";

function tensor(datatype: Datatype, shape: number[], data: Uint8Array): Tensor {
  return { name: "y", datatype, shape, data };
}

describe("float texts", () => {
  it("reads back to the same FP32 and is never longer than the double's text", () => {
    fc.assert(
      fc.property(fc.float({ noNaN: true, noDefaultInfinity: true }), (value) => {
        const text = float32Text(value);
        expect(Object.is(Math.fround(Number(text)), value)).toBe(true);
        expect(text.length).toBeLessThanOrEqual(float64Text(value).length);
        expect(() => JSON.parse(text)).not.toThrow();
      }),
      { numRuns: 5000 },
    );
  });

  it("reads back to the same FP64", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(Object.is(JSON.parse(float64Text(value)), value)).toBe(true);
      }),
    );
  });

  it.each([
    [0.1, "0.1"],
    [0.73, "0.73"],
    [2, "2.0"],
    [-0, "-0.0"],
    [16777216, "16777216.0"],
    [3.4028234663852886e38, "3.4028235e+38"],
  ])("prints FP32 %d as %s", (value, text) => {
    expect(float32Text(Math.fround(value))).toBe(text);
  });
});

describe("elementTexts", () => {
  it("C017: prints 64-bit integers exactly", () => {
    const data = Buffer.alloc(16);
    data.writeBigUInt64LE(18446744073709551615n, 0);
    data.writeBigUInt64LE(9007199254740993n, 8);
    expect(elementTexts(tensor("UINT64", [2], data))).toEqual(["18446744073709551615", "9007199254740993"]);
    expect(elementTexts(tensor("INT64", [2], data))).toEqual(["-1", "9007199254740993"]);
  });

  it("C004: refuses BF16 and FP16 by the output's name, never reinterprets them", () => {
    const data = Buffer.from("803f0040", "hex");
    expect(() => elementTexts(tensor("BF16", [1, 2], data))).toThrow('output "y": BF16 has no JSON form');
    expect(() => elementTexts(tensor("FP16", [1, 2], data))).toThrow('output "y": FP16 has no JSON form');
  });

  it("C011: refuses bytes that are not UTF-8 by the output's name", () => {
    const data = byteElements("ok", Buffer.from("fffe00", "hex"));
    expect(() => elementTexts(tensor("BYTES", [2], data))).toThrow('output "y": element 1 is not UTF-8');
    expect(elementTexts(tensor("BYTES", [2], data), true)).toEqual(['{"b64":"b2s="}', '{"b64":"//4A"}']);
  });

  it("C016: refuses NaN by the output's name and keeps the sign of zero", () => {
    expect(() => elementTexts(tensor("FP32", [2], floats(1, Number.NaN)))).toThrow('output "y": element 1 is NaN');
    expect(elementTexts(tensor("FP32", [1], floats(-0)))).toEqual(["-0.0"]);
  });

  it("C020, C022: a scalar is one element, a zero dimension none", () => {
    expect(elementTexts(tensor("FP32", [], floats(1.5)))).toEqual(["1.5"]);
    expect(elementTexts(tensor("FP32", [0, 1], floats()))).toEqual([]);
    expect(elementTexts(tensor("BYTES", [0, 1], floats()))).toEqual([]);
  });

  it("does not trust an upstream whose data does not match its shape", () => {
    expect(() => elementTexts(tensor("FP32", [3], floats(1)))).toThrow("has 4 bytes for 3 elements");
    expect(() => elementTexts(tensor("BYTES", [2], byteElements("a")))).toThrow("cut off at element 1");
    expect(() => elementTexts(tensor("BYTES", [1], byteElements("a", "b")))).toThrow("5 bytes too many");
    expect(() => elementTexts(tensor("BYTES", [1], Buffer.from("ffffffff", "hex")))).toThrow("cut off");
  });

  it.each<[Datatype, number]>([
    ["BOOL", 1],
    ["UINT8", 1],
    ["INT8", 1],
    ["UINT16", 2],
    ["INT16", 2],
    ["UINT32", 4],
    ["INT32", 4],
    ["UINT64", 8],
    ["INT64", 8],
  ])("writes %s so that reading it gives the same bytes", (datatype, width) => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 0, maxLength: 64 }), (random) => {
        const elements = Math.floor(random.length / width);
        const data = Buffer.from(random.subarray(0, elements * width)).map((byte) =>
          datatype === "BOOL" ? byte & 1 : byte,
        );
        const texts = elementTexts(tensor(datatype, [elements], data));
        const values = texts.map((text) => (datatype === "BOOL" ? text === "true" : JsonNumber.of(text)));
        const payload = { kind: "json", values, nest: undefined, base64: false } as const;
        expect(Buffer.from(tensorFromJson(payload, "x", datatype, [elements], elements))).toEqual(Buffer.from(data));
      }),
      { numRuns: 100 },
    );
  });
});
