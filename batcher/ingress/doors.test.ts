import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Datatype, PredictError } from "../request.js";
import { compileSpec } from "./compiled-spec.js";
import { DEFAULT_LIMITS } from "./limits.js";
import { decodePredictV1 } from "./rest-v1.js";
import { decodeInferV2 } from "./rest-v2.js";
import { type Contents, everyDoor, grpc, v1 } from "./testing/doors.js";
import { byteElements, floats, int64s } from "./testing/loopback.js";
import { echoSpec, rankerSpec } from "./testing/ranker-spec.js";
import { checkCall } from "./validate.js";

describe("the same values through every door", () => {
  const texts = ["he\u0000llo", '"\\\n', "日本"];
  it.each<[string, Datatype, number[], Buffer, Contents, string]>([
    [
      "C014",
      "BYTES",
      [3, 1],
      byteElements(...texts),
      { bytesContents: texts.map((text) => Buffer.from(text)) },
      JSON.stringify(texts),
    ],
    [
      "C007",
      "BYTES",
      [2, 1],
      Buffer.from("02000000616203000000636465", "hex"),
      { bytesContents: [Buffer.from("ab"), Buffer.from("cde")] },
      '["ab","cde"]',
    ],
    ["C017", "INT64", [1, 1], int64s(9007199254740993n), { int64Contents: [9007199254740993n] }, "[9007199254740993]"],
    [
      "C017",
      "UINT64",
      [1, 1],
      Buffer.alloc(8, 0xff),
      { uint64Contents: [18446744073709551615n] },
      "[18446744073709551615]",
    ],
    ["C017", "INT64", [1, 1], int64s(-(2n ** 63n)), { int64Contents: [-(2n ** 63n)] }, "[-9223372036854775808]"],
    ["C016", "FP32", [1, 2], floats(-0, 0.1), { fp32Contents: [-0, 0.1] }, "[-0.0,0.1]"],
    ["C034", "BOOL", [1, 2], Buffer.from([1, 0]), { boolContents: [true, false] }, "[true,false]"],
    ["C035", "INT8", [1, 2], Buffer.from([0x80, 0x7f]), { intContents: [-128, 127] }, "[-128,127]"],
    ["C035", "UINT16", [1, 2], Buffer.from([0xff, 0xff, 0, 0]), { uintContents: [65535, 0] }, "[65535,0]"],
  ])("%s: %s %j", (_id, datatype, shape, raw, typed, json) => {
    const spec = echoSpec(datatype, [-1]);
    for (const [name, door] of Object.entries(everyDoor(datatype, shape, raw, typed, json))) {
      const input = door(spec).inputs[0];
      expect(Buffer.from(input?.data ?? []).toString("hex"), name).toBe(raw.toString("hex"));
      expect(input?.shape, name).toEqual(shape);
    }
    const values = json.slice(1, -1).match(/"(?:\\.|[^"\\])*"|[^,]+/g) ?? [];
    const width = shape[1] ?? 1;
    const rows = Array.from({ length: shape[0] ?? 0 }, (_, row) => `[${values.slice(row * width, (row + 1) * width)}]`);
    const nested = `[${rows.join(",")}]`;
    expect(Buffer.from(v1(spec, `{"inputs":${nested}}`).inputs[0]?.data ?? []).toString("hex")).toBe(
      raw.toString("hex"),
    );
  });

  it("C011: bytes that are no text pass as bytes", () => {
    const element = Buffer.from("fffe00", "hex");
    const checked = grpc(echoSpec("BYTES", [1]), {
      inputs: [{ name: "x", datatype: "BYTES", shape: [1n, 1n], contents: { bytesContents: [element] } }],
    });
    expect(Buffer.from(checked.inputs[0]?.data ?? []).toString("hex")).toBe("03000000fffe00");
  });

  it("raw NaN and FP16 pass bit-exact", () => {
    const nan = Buffer.from("0100c07f", "hex");
    const input = { name: "x", datatype: "FP32", shape: [1n, 1n] };
    expect(grpc(echoSpec("FP32", [1]), { inputs: [input], rawInputContents: [nan] }).inputs[0]?.data).toEqual(nan);
    const half = { inputs: [{ ...input, datatype: "FP16" }], rawInputContents: [Buffer.from("003c", "hex")] };
    expect(grpc(echoSpec("FP16", [1]), half).inputs[0]?.data).toEqual(Buffer.from("003c", "hex"));
  });

  it("C019: the golden request has the same bytes everywhere", () => {
    const spec = echoSpec("INT64", [1]);
    const golden = Buffer.from("83246ae7b91d0100", "hex");
    for (const door of Object.values(
      everyDoor("INT64", [1, 1], golden, { int64Contents: [314159265358979n] }, "[314159265358979]"),
    )) {
      expect(Buffer.from(door(spec).inputs[0]?.data ?? [])).toEqual(golden);
    }
  });
});

describe("random bodies", () => {
  it("end as a documented refusal or as checked tensors, 10,000 times per door", () => {
    const spec = rankerSpec();
    const compiled = compileSpec(spec);
    const seeds = [
      '{"instances":[{"features":[1,2,3,4],"user_id":196,"query":"a"}]}',
      '{"inputs":{"features":[[1,2,3,4]],"user_id":[[196]],"query":[["a"]]}}',
      '{"id":"1","parameters":{"a":1},"inputs":[{"name":"features","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}],"outputs":[{"name":"scores"}]}',
    ];
    const body = fc
      .tuple(
        fc.constantFrom(...seeds),
        fc.array(fc.tuple(fc.nat(150), fc.constantFrom(...'{}[],:"0123456789-.eE\\un')), { maxLength: 5 }),
      )
      .map(([seed, edits]) => {
        let text = seed;
        for (const [at, character] of edits) text = text.slice(0, at) + character + text.slice(at + 1);
        return Buffer.from(text);
      });
    const tries: ((bytes: Buffer) => void)[] = [
      (bytes) => checkCall(decodePredictV1(bytes, compiled, DEFAULT_LIMITS).call, compiled, DEFAULT_LIMITS),
      (bytes) => checkCall(decodeInferV2(bytes, undefined, compiled, DEFAULT_LIMITS).call, compiled, DEFAULT_LIMITS),
      (bytes) => checkCall(decodeInferV2(bytes, "60", compiled, DEFAULT_LIMITS).call, compiled, DEFAULT_LIMITS),
    ];
    fc.assert(
      fc.property(body, (bytes) => {
        for (const attempt of tries) {
          try {
            attempt(bytes);
          } catch (error) {
            if (!(error instanceof PredictError) || error.reason !== "bad_input") throw error;
          }
        }
      }),
      { numRuns: 10_000 },
    );
  });

  it("checks 10,000 random tensors through gRPC", () => {
    const datatypes: Datatype[] = ["BOOL", "INT8", "INT64", "FP16", "FP32", "BYTES"];
    fc.assert(
      fc.property(
        fc.constantFrom(...datatypes),
        fc.array(fc.bigInt(-2n, 5n), { maxLength: 3 }),
        fc.uint8Array({ maxLength: 40 }),
        fc.boolean(),
        (datatype, shape, bytes, typed) => {
          const input = { name: "x", datatype, shape };
          const contents = { intContents: [...bytes], bytesContents: datatype === "BYTES" ? [Buffer.from(bytes)] : [] };
          const message = typed
            ? { inputs: [{ ...input, contents }] }
            : { inputs: [input], rawInputContents: [Buffer.from(bytes)] };
          try {
            const { inputs } = grpc(echoSpec(datatype, [-1]), message);
            expect(inputs.length).toBe(1);
          } catch (error) {
            if (!(error instanceof PredictError) || error.reason !== "bad_input") throw error;
          }
        },
      ),
      { numRuns: 10_000 },
    );
  });
});
