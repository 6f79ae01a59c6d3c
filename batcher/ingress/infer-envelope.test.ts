import {
  type DeepPartial,
  ModelInferRequest,
  ModelInferResponse,
} from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ParameterValue, PredictError } from "../request.js";
import { decodeInferRequest, encodeInferResponse } from "./infer-envelope.js";
import { DEFAULT_LIMITS } from "./limits.js";

function encode(request: DeepPartial<ModelInferRequest>): Buffer {
  return Buffer.from(ModelInferRequest.encode(ModelInferRequest.fromPartial(request)).finish());
}

function decode(bytes: Buffer) {
  return decodeInferRequest(bytes, DEFAULT_LIMITS);
}

// The generated encoder, which writes the messages below, loses a map key of this name; our own decoder takes it.
const word = fc.string({ maxLength: 12, unit: "grapheme" }).filter((text) => text !== "__proto__");
const int64 = fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n);
const parameter = fc.oneof(
  fc.boolean().map((value) => ({ $case: "boolParam" as const, value })),
  int64.map((value) => ({ $case: "int64Param" as const, value })),
  fc.bigInt(0n, 2n ** 64n - 1n).map((value) => ({ $case: "uint64Param" as const, value })),
  word.map((value) => ({ $case: "stringParam" as const, value })),
  fc.double().map((value) => ({ $case: "doubleParam" as const, value })),
);
const parameters = fc.uniqueArray(fc.tuple(word, parameter), { selector: ([key]) => key, maxLength: 3 });
const rawInput = fc.record({
  name: word,
  datatype: word,
  shape: fc.array(int64, { maxLength: 4 }),
  raw: fc.uint8Array({ maxLength: 20 }),
});

describe("decodeInferRequest", () => {
  it("reads what the generated codec writes", () => {
    fc.assert(
      fc.property(
        fc.record({ modelName: word, modelVersion: word, id: word }),
        parameters,
        fc.array(rawInput, { minLength: 1, maxLength: 4 }),
        fc.array(word, { maxLength: 3 }),
        (head, sent, inputs, outputs) => {
          const bytes = encode({
            ...head,
            parameters: Object.fromEntries(sent.map(([key, parameterChoice]) => [key, { parameterChoice }])),
            inputs: inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape })),
            outputs: outputs.map((name) => ({ name })),
            rawInputContents: inputs.map(({ raw }) => Buffer.from(raw)),
          });
          const call = decode(bytes);
          expect({ modelName: call.modelName, modelVersion: call.modelVersion, id: call.id }).toEqual(head);
          expect(call.outputs).toEqual(outputs);
          expect(call.parameters).toEqual(
            new Map<string, ParameterValue>(sent.map(([key, { value }]) => [key, value])),
          );
          expect(call.inputs.length).toBe(inputs.length);
          call.inputs.forEach((input, index) => {
            const expected = inputs[index];
            expect(input.name).toBe(expected?.name);
            expect(input.datatype).toBe(expected?.datatype);
            expect(input.shape.map(BigInt)).toEqual(expected?.shape);
            expect(input.payload.kind === "raw" && Buffer.from(input.payload.bytes)).toEqual(
              Buffer.from(expected?.raw ?? []),
            );
          });
        },
      ),
      { numRuns: 300 },
    );
  });

  it("slices raw contents instead of copying them", () => {
    const bytes = encode({ inputs: [{ name: "x" }], rawInputContents: [Buffer.from("abcd")] });
    const payload = decode(bytes).inputs[0]?.payload;
    expect(payload?.kind === "raw" && payload.bytes.buffer === bytes.buffer).toBe(true);
  });

  it.each([
    ["model_name", Buffer.from("0a01610a0161", "hex")],
    ["model_version", Buffer.from("120131120131", "hex")],
  ])("refuses a %s that is there twice, even with the same value", (field, bytes) => {
    expect(() => decode(bytes)).toThrow(`${field} is there twice`);
  });

  it("skips unknown fields of every wire type", () => {
    // 100: varint, fixed64, bytes, fixed32.
    const unknown = Buffer.from(`a006ff01a106${"00".repeat(8)}a20603414243a50600000000`, "hex");
    expect(decode(Buffer.concat([unknown, Buffer.from("0a0161", "hex")])).modelName).toBe("a");
  });

  it.each([
    ["0a05616263", "a length of 5 where 3 bytes are left at byte 1"],
    ["0affffffff0f", "a length of 4294967295 where 0 bytes are left at byte 1"],
    ["0affffffffffffffffff01", "a length of 18446744073709551615"],
    ["0a", "a varint that is cut off at byte 1"],
    ["0affffffffffffffffffff01", "a varint longer than 64 bits at byte 1"],
    ["0001", "field number 0 at byte 0"],
    ["0801", "model_name with wire type 0 instead of 2"],
    ["0b0c", "model_name with wire type 3"],
    ["a306", "wire type 3 in field 100"],
    ["0a02c328", "model_name at byte 2 is not valid UTF-8"],
    ["2a0a1a08ffffffffffffffff", "a varint that is cut off"],
  ])("refuses %s", (hex, expected) => {
    expect(() => decode(Buffer.from(hex, "hex"))).toThrow(expected);
  });

  it("C001, C002, C005: pairs raw entries with inputs and refuses another number of them", () => {
    const inputs = [{ name: "a" }, { name: "b" }];
    expect(() => decode(encode({ inputs, rawInputContents: [Buffer.alloc(4)] }))).toThrow(
      "raw_input_contents has 1 entries for 2 inputs",
    );
    const both = [{ name: "a", contents: { fp32Contents: [1] } }];
    expect(() => decode(encode({ inputs: both, rawInputContents: [Buffer.alloc(4)] }))).toThrow(
      'input "a": contents and raw_input_contents are both filled',
    );
  });

  it("C028: refuses parameters that would be lost on a tensor, takes those of the request", () => {
    const unit = { unit: { parameterChoice: { $case: "stringParam" as const, value: "ms" } } };
    expect(() => decode(encode({ inputs: [{ name: "a", parameters: unit }] }))).toThrow(
      'input "a": parameter "unit" is not supported on a tensor',
    );
    expect(() => decode(encode({ outputs: [{ name: "y", parameters: unit }] }))).toThrow(
      'output "y": parameter "unit"',
    );
    expect(decode(encode({ parameters: unit })).parameters.get("unit")).toBe("ms");
  });

  it("C029: keeps double and integer parameters exact and refuses one without a value", () => {
    const call = decode(
      encode({
        parameters: {
          threshold: { parameterChoice: { $case: "doubleParam", value: 0.35 } },
          n: { parameterChoice: { $case: "int64Param", value: 9007199254740993n } },
        },
      }),
    );
    expect(call.parameters.get("threshold")).toBe(0.35);
    expect(call.parameters.get("n")).toBe(9007199254740993n);
    expect(() => decode(encode({ parameters: { x: {} } }))).toThrow('parameter "x" of the request has no value');
  });

  it("bounds the number of tensors, dimensions, parameters and the length of names", () => {
    expect(() => decode(encode({ inputs: Array.from({ length: 257 }, () => ({ name: "x" })) }))).toThrow(
      "more than 256 inputs",
    );
    expect(() => decode(encode({ inputs: [{ name: "x", shape: new Array<bigint>(64).fill(1n) }] }))).toThrow(
      'input "x": shape has more than 16 dimensions',
    );
    expect(() => decode(encode({ id: "x".repeat(257) }))).toThrow("id has 257 bytes; the limit is 256");
  });

  it("refuses 10,000 random or damaged messages with bad_input or takes them", () => {
    const valid = encode({
      modelName: "ranker@prod",
      id: "7",
      parameters: { a: { parameterChoice: { $case: "boolParam", value: true } } },
      inputs: [
        { name: "features", datatype: "FP32", shape: [1n, 4n], contents: { fp32Contents: [1, 2, 3, 4] } },
        { name: "query", datatype: "BYTES", shape: [1n, 1n], contents: { bytesContents: [Buffer.from("ab")] } },
      ],
      outputs: [{ name: "scores" }],
    });
    const damaged = fc
      .array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 })
      .map((edits) => {
        const bytes = Buffer.from(valid);
        for (const [at, byte] of edits) bytes[at] = byte;
        return bytes;
      });
    const random = fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes));
    fc.assert(
      fc.property(fc.oneof(damaged, random), (bytes) => {
        try {
          decode(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(PredictError);
          expect((error as PredictError).reason).toBe("bad_input");
        }
      }),
      { numRuns: 10_000 },
    );
  });
});

describe("encodeInferResponse", () => {
  it("writes what the generated codec reads, one raw entry per output", () => {
    fc.assert(
      fc.property(
        fc.record({ modelName: word, modelVersion: word, id: word }),
        fc.array(
          fc.record({
            name: word,
            shape: fc.array(fc.nat(), { maxLength: 4 }),
            data: fc.uint8Array({ maxLength: 300 }),
          }),
        ),
        (head, outputs) => {
          const tensors = outputs.map((output) => ({ ...output, datatype: "FP32" as const }));
          const bytes = encodeInferResponse({ ...head, parameters: new Map(), outputs: tensors });
          const message = ModelInferResponse.decode(bytes);
          expect({ modelName: message.modelName, modelVersion: message.modelVersion, id: message.id }).toEqual(head);
          expect(message.outputs.map(({ name, datatype, shape }) => ({ name, datatype, shape }))).toEqual(
            outputs.map(({ name, shape }) => ({ name, datatype: "FP32", shape: shape.map(BigInt) })),
          );
          expect(message.rawOutputContents).toEqual(outputs.map(({ data }) => Buffer.from(data)));
        },
      ),
      { numRuns: 300 },
    );
  });

  it("C004, C022: passes BF16 bytes and an empty tensor as they are", () => {
    const message = ModelInferResponse.decode(
      encodeInferResponse({
        modelName: "ranker",
        modelVersion: "41",
        id: "",
        parameters: new Map<string, ParameterValue>([
          ["a", true],
          ["b", -7n],
          ["c", 18446744073709551615n],
          ["d", 0.35],
          ["e", "ms"],
        ]),
        outputs: [
          { name: "scores", datatype: "BF16", shape: [1, 2], data: Buffer.from("803f0040", "hex") },
          { name: "empty", datatype: "FP32", shape: [0, 1], data: new Uint8Array() },
        ],
      }),
    );
    expect(message.rawOutputContents.map((raw) => raw.toString("hex"))).toEqual(["803f0040", ""]);
    expect(message.outputs[1]?.shape).toEqual([0n, 1n]);
    expect(
      Object.fromEntries(
        Object.entries(message.parameters).map(([key, { parameterChoice }]) => [key, parameterChoice]),
      ),
    ).toEqual({
      a: { $case: "boolParam", value: true },
      b: { $case: "int64Param", value: -7n },
      c: { $case: "uint64Param", value: 18446744073709551615n },
      d: { $case: "doubleParam", value: 0.35 },
      e: { $case: "stringParam", value: "ms" },
    });
  });
});
