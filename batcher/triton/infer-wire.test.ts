import {
  type InferParameter,
  ModelInferRequest,
  ModelInferResponse,
} from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { WireError } from "../platform/protobuf-wire.js";
import type { Datatype, ParameterValue } from "../request.js";
import { decodeInferResponse, encodeInferRequest } from "./infer-wire.js";

const fromProto = (parameter: InferParameter): ParameterValue => parameter.parameterChoice?.value as ParameterValue;

const parameterValue: fc.Arbitrary<ParameterValue> = fc.oneof(
  fc.boolean(),
  fc.string(),
  fc.double({ noNaN: true }),
  fc.bigInt({ min: -(1n << 63n), max: (1n << 64n) - 1n }),
);
const parameters = fc.dictionary(fc.string({ minLength: 1, maxLength: 5 }), parameterValue, {
  maxKeys: 3,
  noNullPrototype: true,
});
const dimension = fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }));

describe("encodeInferRequest", () => {
  it("writes what the generated codec reads", () => {
    const input = fc.record({
      name: fc.string({ maxLength: 200 }),
      datatype: fc.constantFrom<Datatype>("FP32", "BYTES", "INT64"),
      shape: fc.array(dimension, { maxLength: 4 }),
      parts: fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 3 }),
    });
    fc.assert(
      fc.property(
        fc.array(input, { maxLength: 3 }),
        fc.array(fc.string(), { maxLength: 3 }),
        parameters,
        (inputs, outputs, params) => {
          const merged = inputs.map((tensor) => ({ ...tensor, byteLength: Buffer.concat(tensor.parts).length }));
          const bytes = encodeInferRequest("ranker", "41", {
            inputs: merged,
            outputs,
            parameters: new Map(Object.entries(params)),
          });
          const read = ModelInferRequest.decode(bytes);
          expect([read.modelName, read.modelVersion]).toEqual(["ranker", "41"]);
          expect(
            read.inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape: shape.map(Number) })),
          ).toEqual(inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape })));
          expect(read.rawInputContents.map((raw) => Buffer.from(raw))).toEqual(
            inputs.map(({ parts }) => Buffer.concat(parts)),
          );
          expect(read.outputs.map(({ name }) => name)).toEqual(outputs);
          const back = Object.entries(read.parameters).map(([name, value]) => [name, fromProto(value)]);
          expect(Object.fromEntries(back)).toEqual(params);
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("decodeInferResponse", () => {
  const response = ModelInferResponse.fromPartial({
    modelName: "ranker",
    modelVersion: "41",
    id: "x",
    outputs: [
      { name: "scores", datatype: "FP32", shape: [2n, 1n] },
      { name: "label", datatype: "BYTES", shape: [2n] },
    ],
    rawOutputContents: [Buffer.from("12345678"), Buffer.alloc(8)],
    parameters: {
      tag: { parameterChoice: { $case: "stringParam", value: "x-98" } },
      n: { parameterChoice: { $case: "int64Param", value: -7n } },
    },
  });

  it("reads what the generated codec writes (C062)", () => {
    const answer = decodeInferResponse(Buffer.from(ModelInferResponse.encode(response).finish()));
    expect(answer.outputs.map(({ name, datatype, shape, data }) => [name, datatype, shape, data.length])).toEqual([
      ["scores", "FP32", [2, 1], 8],
      ["label", "BYTES", [2], 8],
    ]);
    expect(answer.parameters).toEqual(
      new Map<string, ParameterValue>([
        ["tag", "x-98"],
        ["n", -7n],
      ]),
    );
  });

  it("throws WireError, and nothing else, on damaged messages", () => {
    const good = Buffer.from(ModelInferResponse.encode(response).finish());
    fc.assert(
      fc.property(
        fc.nat({ max: good.length - 1 }),
        fc.nat({ max: 255 }),
        fc.nat({ max: good.length }),
        (at, byte, end) => {
          const bad = Buffer.from(good.subarray(0, end));
          if (at < bad.length) bad[at] = byte;
          try {
            decodeInferResponse(bad);
          } catch (error) {
            expect(error).toBeInstanceOf(WireError);
          }
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("says so when contents are typed or missing", () => {
    const noRaw = { ...response, rawOutputContents: [] };
    expect(() => decodeInferResponse(Buffer.from(ModelInferResponse.encode(noRaw).finish()))).toThrow(
      /2 outputs but 0/,
    );
  });
});
