import { describe, expect, it } from "vitest";
import type { Datatype } from "../request.js";
import { type Contents, everyDoor, grpc, messageOf, v1, v2 } from "./testing/doors.js";
import { byteElements } from "./testing/loopback.js";
import { echoSpec, rankerSpec } from "./testing/ranker-spec.js";

describe("the same mistake has the same message on every door", () => {
  it.each<[string, string, (number | string)[], string]>([
    ["C023", "FP32", [0, 4], 'input "x": batch of 0 rows; send at least one'],
    ["C025", "FP32", [-1, 4], 'input "x": shape [-1,4]: dimension 0 is negative; send the actual size'],
    [
      "C025",
      "FP32",
      ["2147483648", "4294967296"],
      'input "x": shape [2147483648,4294967296] has more elements than a request can carry (4194304 bytes); send fewer rows',
    ],
    [
      "C025",
      "FP32",
      ["9223372036854775807", 4],
      'input "x": shape [9223372036854775807,4]: dimension 0 is beyond 2^53; send the actual size',
    ],
    ["C025", "FP32", new Array<number>(64).fill(1), 'input "x": shape has more than 16 dimensions; the limit is 16'],
    ["C020", "FP32", [], 'input "x": shape []: batch dimension missing; the model takes [-1,4], so one row is [1,4]'],
    ["C020", "FP32", [4], 'input "x": shape [4]: batch dimension missing; the model takes [-1,4], so one row is [1,4]'],
    ["shape", "FP32", [1, 5], 'input "x": shape [1,5] does not fit [-1,4] of the model (-1 is any size)'],
    ["rows", "FP32", [9, 4], 'input "x": 9 rows, the model\'s max_batch_size is 8; split the request'],
    ["dtype", "FP64", [1, 4], 'input "x": datatype is FP64, the model takes FP32; convert the values'],
    ["dtype", "float", [1, 4], 'input "x": "float" is not a KServe v2 datatype; send FP32'],
  ])("%s: %s %j", (_id, datatype, shape, expected) => {
    for (const [name, door] of Object.entries(
      everyDoor(datatype, shape, Buffer.alloc(16), { fp32Contents: [1, 2, 3, 4] }, "[1,2,3,4]"),
    )) {
      expect(
        messageOf(() => door(echoSpec("FP32", [4]))),
        name,
      ).toBe(expected);
    }
  });

  it("C023: rows of TF-Serving too", () => {
    const expected = 'input "x": batch of 0 rows; send at least one';
    expect(messageOf(() => v1(echoSpec("FP32", [4]), '{"instances":[]}'))).toBe(expected);
    expect(messageOf(() => v1(echoSpec("FP32", [4]), '{"inputs":[]}'))).toBe(expected);
    expect(messageOf(() => v1(echoSpec("FP32", [4]), '{"inputs":{"x":[]}}'))).toBe(expected);
  });

  it("C010: a string's length in the shape is told from the number of strings", () => {
    for (const door of Object.values(
      everyDoor("BYTES", [40], byteElements("a".repeat(40)), { bytesContents: [Buffer.from("a")] }, '["a"]'),
    )) {
      expect(messageOf(() => door(echoSpec("BYTES", [1])))).toContain("shape product 40, 1 element");
    }
    for (const door of Object.values(
      everyDoor("BYTES", [57], byteElements("a"), { bytesContents: [Buffer.from("a")] }, '["a"]'),
    )) {
      expect(messageOf(() => door(echoSpec("BYTES", [])))).toMatch(/57 rows|shape product 57, 1 element/);
    }
  });

  it("C025: a dimension that is no integer, where the door can express it", () => {
    const body = (shape: string) => `{"inputs":[{"name":"x","datatype":"FP32","shape":${shape},"data":[1,2,3,4]}]}`;
    expect(messageOf(() => v2(echoSpec("FP32", [4]), body("[1.5,4]")))).toBe(
      'input "x": shape[0] is 1.5; send an integer',
    );
    expect(messageOf(() => v2(echoSpec("FP32", [4]), body('["1","4"]')))).toBe(
      'input "x": shape[0] is a string; send an integer',
    );
  });

  it("C031: a duplicate input", () => {
    const expected = 'duplicate input "x"; send it once, with several rows in its batch dimension (shape [rows, ...])';
    const spec = echoSpec("FP32", [4]);
    const input = { name: "x", datatype: "FP32", shape: [4n] };
    expect(
      messageOf(() => grpc(spec, { inputs: [input, input], rawInputContents: [Buffer.alloc(16), Buffer.alloc(16)] })),
    ).toBe(expected);
    const json = { name: "x", datatype: "FP32", shape: [4], data: [1, 2, 3, 4] };
    expect(messageOf(() => v2(spec, { inputs: [json, json] }))).toBe(expected);
  });

  it("C032: missing and unknown inputs are listed, optional ones are not missed", () => {
    const expected =
      'inputs: missing "user_id", unknown "foo"; the model takes "features", "user_id", "query", "hint" (optional)';
    const features = { name: "features", datatype: "FP32", shape: [1n, 4n], contents: { fp32Contents: [1, 2, 3, 4] } };
    const query = {
      name: "query",
      datatype: "BYTES",
      shape: [1n, 1n],
      contents: { bytesContents: [Buffer.from("a")] },
    };
    const foo = { ...features, name: "foo" };
    expect(messageOf(() => grpc(rankerSpec(), { inputs: [features, query, foo] }))).toBe(expected);
    expect(messageOf(() => v1(rankerSpec(), { instances: [{ features: [1, 2, 3, 4], query: "a", foo: 1 }] }))).toBe(
      expected,
    );
    const json = [
      { name: "features", datatype: "FP32", shape: [1, 4], data: [1, 2, 3, 4] },
      { name: "query", datatype: "BYTES", shape: [1, 1], data: ["a"] },
      { name: "foo", datatype: "FP32", shape: [1, 1], data: [1] },
    ];
    expect(messageOf(() => v2(rankerSpec(), { inputs: json }))).toBe(expected);
  });

  it("rows must agree, requested outputs must exist", () => {
    const inputs = (rows: number) => [
      { name: "features", datatype: "FP32", shape: [1, 4], data: [1, 2, 3, 4] },
      { name: "user_id", datatype: "INT64", shape: [rows, 1], data: new Array(rows).fill(7) },
      { name: "query", datatype: "BYTES", shape: [1, 1], data: ["a"] },
    ];
    expect(messageOf(() => v2(rankerSpec(), { inputs: inputs(2) }))).toBe(
      'input "user_id": 2 rows where the inputs before it have 1; send equally many',
    );
    expect(messageOf(() => v2(rankerSpec(), { inputs: inputs(1), outputs: [{ name: "score" }] }))).toBe(
      'requested outputs: unknown "score"; the model has "scores", "label"',
    );
    expect(
      messageOf(() => v2(rankerSpec(), { inputs: inputs(1), outputs: [{ name: "label" }, { name: "label" }] })),
    ).toBe('requested outputs: "label" is there twice; ask for it once');
    const checked = v2(rankerSpec(), { inputs: inputs(1), outputs: [{ name: "label" }] });
    expect(checked.requestedOutputs).toEqual(["label"]);
    expect(checked.inputs.map(({ name }) => name)).toEqual(["features", "user_id", "query"]);
  });
});

describe("contents that do not match their shape", () => {
  const raw = (datatype: Datatype, shape: bigint[], hex: string) =>
    messageOf(() =>
      grpc(echoSpec(datatype, [-1]), {
        inputs: [{ name: "x", datatype, shape }],
        rawInputContents: [Buffer.from(hex, "hex")],
      }),
    );

  it("C001, C002: expected and sent bytes", () => {
    expect(raw("FP32", [1n, 4n], "00".repeat(32))).toBe(
      'input "x": expected 16 bytes, got 32; FP32 [1,4] has 4 per element',
    );
    expect(raw("FP32", [1n, 4n], "")).toBe('input "x": expected 16 bytes, got 0; FP32 [1,4] has 4 per element');
  });

  it.each([
    ["6162", "element 0 at byte 0: 2 bytes are left for a length"],
    ["000000026162", "element 0 at byte 0 claims 33554432 bytes where 2 are left"],
    ["ffffffff", "element 0 at byte 0 claims 4294967295 bytes where 0 are left"],
    ["0200000061620a0b0c", "3 bytes are left over at byte 6 after element 0"],
    ["", "element 0 at byte 0: expected 1 elements, got 0"],
  ])("C008: BYTES %s", (hex, expected) => {
    expect(raw("BYTES", [1n, 1n], hex)).toContain(expected);
  });

  it("C034: BOOL", () => {
    expect(raw("BOOL", [1n, 1n], "02")).toBe('input "x": element 0 is byte 2; BOOL takes 0 or 1');
    const json = (data: string) =>
      messageOf(() =>
        v2(echoSpec("BOOL", [1]), `{"inputs":[{"name":"x","datatype":"BOOL","shape":[1,1],"data":${data}}]}`),
      );
    expect(json("[1]")).toBe('input "x": element 0 is a number; BOOL takes true or false');
    expect(json('["true"]')).toBe('input "x": element 0 is a string; BOOL takes true or false');
    expect(json("[null]")).toBe('input "x": element 0 is null; BOOL takes true or false');
  });

  it.each<[Datatype, string, string]>([
    ["INT64", "[6.5]", "element 0 is 6.5; INT64 takes integers without fraction or exponent"],
    ["INT64", "[1e3]", "element 0 is 1e3; INT64 takes integers"],
    ["INT8", "[300]", "element 0 is 300; INT8 takes -128 to 127"],
    ["UINT8", "[-1]", "element 0 is -1; UINT8 takes 0 to 255"],
    [
      "INT64",
      "[9223372036854775808]",
      "element 0 is 9223372036854775808; INT64 takes -9223372036854775808 to 9223372036854775807",
    ],
    ["UINT64", "[-1]", "element 0 is -1; UINT64 takes 0 to 18446744073709551615"],
    ["UINT64", `[${"9".repeat(500)}]`, "UINT64 takes 0 to"],
    ["FP32", '["1"]', "element 0 is a string; FP32 takes numbers"],
    ["FP32", "[1e39]", "element 0 is 1e39, beyond the range of FP32"],
    ["FP64", "[1e400]", "element 0 is 1e400, beyond the range of FP64"],
    ["FP16", "[1]", "FP16 has no JSON form"],
    ["BYTES", "[1]", "element 0 is a number; BYTES takes strings"],
    ["BYTES", '[{"b64":"YQ=="}]', "element 0 is an object; BYTES takes strings"],
    ["FP32", "[1,2]", "expected 1 elements for shape [1,1], got 2"],
    ["FP32", "[[1,2]]", "an array of 2 at nesting level 1"],
    ["FP32", "[[1],[2]]", "an array of 2 at nesting level 0"],
    ["FP32", "[[[1]]]", "element 0 is an array; FP32 takes numbers"],
  ])("C016, C035: %s %s by JSON", (datatype, data, expected) => {
    const body = `{"parameters":{"binary_data_output":true},"inputs":[{"name":"x","datatype":"${datatype}","shape":[1,1],"data":${data}}]}`;
    expect(messageOf(() => v2(echoSpec(datatype, [1]), body))).toContain(`input "x": `);
    expect(messageOf(() => v2(echoSpec(datatype, [1]), body))).toContain(expected);
  });

  it("C035: typed contents out of range or in the wrong field", () => {
    const typed = (datatype: Datatype, contents: Contents) =>
      messageOf(() => grpc(echoSpec(datatype, [1]), { inputs: [{ name: "x", datatype, shape: [1n, 1n], contents }] }));
    expect(typed("INT8", { intContents: [300] })).toBe('input "x": element 0 is 300; INT8 takes -128 to 127');
    expect(typed("UINT8", { uintContents: [256] })).toBe('input "x": element 0 is 256; UINT8 takes 0 to 255');
    expect(typed("FP32", { fp64Contents: [1] })).toBe(
      'input "x": fp64_contents is filled, but FP32 belongs in fp32_contents',
    );
    expect(typed("FP16", { fp32Contents: [1] })).toContain("FP16 has no typed form; send raw_input_contents");
    expect(typed("INT64", { int64Contents: [1n, 2n] })).toBe('input "x": expected 1 elements in int64_contents, got 2');
    expect(typed("BYTES", {})).toBe('input "x": expected 1 elements in bytes_contents, got 0');
  });
});
