import { describe, expect, it } from "vitest";
import { compileSpec } from "./compiled-spec.js";
import { DEFAULT_LIMITS } from "./limits.js";
import { decodeInferV2, encodeInferV2 } from "./rest-v2.js";
import { messageOf, v2 } from "./testing/doors.js";
import { byteElements } from "./testing/loopback.js";
import { echoSpec } from "./testing/ranker-spec.js";

describe("KServe v2 bodies", () => {
  const input = '"name":"x","datatype":"FP32","shape":[1,1]';
  it.each([
    ["[]", "body is an array"],
    ["{}", '"inputs" is missing'],
    ['{"inputs":{}}', '"inputs" is an object'],
    ['{"inputs":[1]}', "inputs[0] is a number"],
    ['{"inputs":[{}]}', "inputs[0]: name is missing"],
    ['{"inputs":[{"name":"x"}]}', 'input "x": datatype is missing'],
    ['{"inputs":[{"name":"x","datatype":"FP32"}]}', 'input "x": shape is missing'],
    [`{"inputs":[{${input}}]}`, 'input "x": data is missing'],
    [`{"inputs":[{${input},"data":1}]}`, 'input "x": data is a number'],
    [`{"inputs":[{${input},"data":[1],"value":1}]}`, 'inputs[0] has unknown keys "value"'],
    [`{"input":[],"inputs":[]}`, 'body has unknown keys "input"'],
    [`{"id":7,"inputs":[]}`, "id is a number; send a string"],
    [
      `{"inputs":[{${input},"data":[1]}],"outputs":[{"name":"y","parameters":{"binary_data":1}}]}`,
      'parameter "binary_data" of output "y" must be true or false',
    ],
    [
      `{"inputs":[{${input},"data":[1]}],"outputs":[{"name":"y","parameters":{"classification":3}}]}`,
      'output "y": parameter "classification" is not supported',
    ],
    [
      `{"inputs":[{${input},"parameters":{"shared_memory_region":"r"}}]}`,
      "shared memory does not reach through a mesh",
    ],
    [
      `{"inputs":[{${input},"data":[1],"parameters":{"binary_data_size":4}}]}`,
      "data and binary_data_size are both there",
    ],
    [`{"inputs":[{${input},"parameters":{"binary_data_size":4}}]}`, "binary_data_size is 4, but 0 bytes are left"],
    [
      `{"inputs":[{${input},"parameters":{"binary_data_size":-4}}]}`,
      '"binary_data_size" of input "x" must be a byte count',
    ],
  ])("refuses %s", (body, expected) => {
    expect(messageOf(() => v2(echoSpec("FP32", [1]), body))).toContain(expected);
  });

  it("C028, C029: request parameters keep their types, what has none is refused by its key", () => {
    const compiled = compileSpec(echoSpec("FP32", [1]));
    const decode = (parameters: string) =>
      decodeInferV2(
        Buffer.from(`{"parameters":${parameters},"inputs":[{${input},"data":[1]}]}`),
        undefined,
        compiled,
        DEFAULT_LIMITS,
      ).call.parameters;
    expect(decode('{"a":true,"b":7,"threshold":0.35,"n":9007199254740993,"unit":"ms"}')).toEqual(
      new Map<string, unknown>([
        ["a", true],
        ["b", 7n],
        ["threshold", 0.35],
        ["n", 9007199254740993n],
        ["unit", "ms"],
      ]),
    );
    expect(messageOf(() => decode('{"x":null}'))).toContain('parameter "x" of the request is null');
    expect(messageOf(() => decode('{"y":[1]}'))).toContain('parameter "y" of the request is an array');
    expect(messageOf(() => decode('{"z":1e999}'))).toContain('parameter "z" of the request is 1e999, beyond FP64');
    expect(messageOf(() => decode('{"z":18446744073709551616}'))).toContain("beyond 64 bits");
    expect(
      messageOf(() => v2(echoSpec("FP32", [1]), `{"inputs":[{${input},"data":[1],"parameters":{"unit":"ms"}}]}`)),
    ).toContain('parameter "unit"');
  });

  it("binary heads and tails must fit", () => {
    const compiled = compileSpec(echoSpec("FP32", [1]));
    const head = `{"inputs":[{${input},"parameters":{"binary_data_size":4}}]}`;
    const decode = (length: string, tail: Buffer) =>
      decodeInferV2(Buffer.concat([Buffer.from(head), tail]), length, compiled, DEFAULT_LIMITS);
    expect(messageOf(() => decode(`${head.length}`, Buffer.alloc(8)))).toContain(
      "4 bytes behind the JSON head belong to no input",
    );
    expect(messageOf(() => decode(`${head.length}`, Buffer.alloc(3)))).toContain(
      "binary_data_size is 4, but 3 bytes are left",
    );
    for (const length of ["0", "-1", "x", "1e3", `${head.length + 100}`]) {
      expect(messageOf(() => decode(length, Buffer.alloc(4)))).toContain("inference-header-content-length is");
    }
    expect(messageOf(() => decode(`${head.length - 1}`, Buffer.alloc(4)))).toContain(
      "JSON head is not acceptable JSON: the text ends too early",
    );
  });

  it("C004, C014: answers in JSON or in binary, output by output", () => {
    const answer = {
      modelName: "ranker@prod",
      modelVersion: "41",
      id: "é",
      parameters: new Map<string, bigint | number>([
        ["n", 9007199254740993n],
        ["t", 2],
      ]),
      outputs: [
        { name: "label", datatype: "BYTES", shape: [1, 1], data: byteElements("日\u0000") },
        { name: "scores", datatype: "BF16", shape: [1, 2], data: Buffer.from("803f0040", "hex") },
      ],
    } as const;
    const { body, headBytes, contentType } = encodeInferV2(answer, (name) => name === "scores");
    expect(contentType).toBe("application/octet-stream");
    expect(body.subarray(0, headBytes).toString()).toBe(
      '{"model_name":"ranker@prod","model_version":"41","id":"é","parameters":{"n":9007199254740993,"t":2.0},"outputs":[{"name":"label","datatype":"BYTES","shape":[1,1],"data":["日\\u0000"]},{"name":"scores","datatype":"BF16","shape":[1,2],"parameters":{"binary_data_size":4}}]}',
    );
    expect(body.subarray(headBytes).toString("hex")).toBe("803f0040");
    expect(messageOf(() => encodeInferV2(answer, () => false))).toContain('output "scores": BF16 has no JSON form');
  });
});
