import { describe, expect, it } from "vitest";
import { encodePredictV1 } from "./rest-v1.js";
import { messageOf, v1 } from "./testing/doors.js";
import { byteElements, floats, int64s } from "./testing/loopback.js";
import { echoSpec, rankerSpec } from "./testing/ranker-spec.js";

describe("TF-Serving bodies", () => {
  it("rows, columns and shortened rows are the same tensors", () => {
    const bodies = [
      '{"instances":[{"features":[1,2,3,4],"user_id":196,"query":"a"},{"features":[5,6,7,8],"user_id":[242],"query":["b"]}]}',
      '{"signature_name":"serving_default","inputs":{"features":[[1,2,3,4],[5,6,7,8]],"user_id":[196,242],"query":[["a"],["b"]]}}',
    ];
    const uniform = bodies[0]?.replace("[242]", "242").replace('["b"]', '"b"') ?? "";
    for (const body of [uniform, bodies[1] ?? ""]) {
      const checked = v1(rankerSpec(), body);
      expect(checked.rows).toBe(2);
      expect(checked.inputs.map(({ name, shape }) => [name, shape])).toEqual([
        ["features", [2, 4]],
        ["user_id", [2, 1]],
        ["query", [2, 1]],
      ]);
      expect(Buffer.from(checked.inputs[1]?.data ?? [])).toEqual(int64s(196n, 242n));
    }
    expect(messageOf(() => v1(rankerSpec(), bodies[0] ?? ""))).toContain('input "user_id": element 1 is an array');
  });

  it("C013: base64 is decoded strictly, with the element", () => {
    const spec = echoSpec("BYTES", [1]);
    const one = (text: string) => `{"instances":["ok",{"b64":${JSON.stringify(text)}}]}`;
    expect(Buffer.from(v1(spec, one("//4A")).inputs[0]?.data ?? [])).toEqual(
      byteElements("ok", Buffer.from("fffe00", "hex")),
    );
    for (const bad of ["-_-_", "a", "####", "YQ", "YR==", "Y Q=="]) {
      expect(messageOf(() => v1(spec, one(bad)))).toContain('input "x": element 1 is not base64');
    }
  });

  it.each([
    ["[1]", "body is an array"],
    ["{}", 'body must have either "instances" (rows) or "inputs" (columns)'],
    ['{"instances":[1],"inputs":[1]}', 'body must have either "instances" (rows) or "inputs" (columns)'],
    ['{"instance":[1]}', 'unknown keys "instance"'],
    ['{"signature_name":"other","instances":[1]}', 'signature_name is "other"'],
    ['{"instances":5}', '"instances" is a number'],
    ['{"instances":[[1,2,3,4]]}', '"instances" has values without names, but the model has several inputs'],
    ['{"inputs":[[1,2,3,4]]}', '"inputs" has values without names'],
    ['{"instances":[{"features":1},2]}', '"instances" row 1 is a number'],
    ['{"instances":[{"features":1},{"query":2}]}', '"instances" row 1 lacks "features"'],
    ['{"instances":[{"features":1},{"features":1,"x":2}]}', '"instances" row 1 has "x"'],
    ['{"instances":[{"features":[1,2,3,4],"user_id":1,"query":"a"', "the text ends too early"],
    ['{"instances":[{"features":[NaN,2,3,4],"user_id":1,"query":"a"}]}', "NaN is not a JSON number at byte 27"],
  ])("refuses %s", (body, expected) => {
    expect(messageOf(() => v1(rankerSpec(), body))).toContain(expected);
  });

  it("answers one output as values, several as objects, columns as outputs", () => {
    const scores = { name: "scores", datatype: "FP32", shape: [2, 1], data: floats(0.73, 1) } as const;
    const label = { name: "label", datatype: "BYTES", shape: [2], data: byteElements("a", "b") } as const;
    const blob = { name: "img_bytes", datatype: "BYTES", shape: [2], data: byteElements("a", "b") } as const;
    const scalar = { name: "loss", datatype: "FP64", shape: [], data: Buffer.alloc(8) } as const;
    const empty = { name: "none", datatype: "FP32", shape: [0, 1], data: floats() } as const;
    const cube = {
      name: "cube",
      datatype: "UINT8",
      shape: [2, 2, 2],
      data: Buffer.from([1, 2, 3, 4, 5, 6, 7, 8]),
    } as const;
    expect(encodePredictV1([scores], "row").toString()).toBe('{"predictions":[[0.73],[1.0]]}');
    expect(encodePredictV1([scores, label], "row").toString()).toBe(
      '{"predictions":[{"scores":[0.73],"label":"a"},{"scores":[1.0],"label":"b"}]}',
    );
    expect(encodePredictV1([scores], "column").toString()).toBe('{"outputs":[[0.73],[1.0]]}');
    expect(encodePredictV1([label, scalar], "column").toString()).toBe('{"outputs":{"label":["a","b"],"loss":0.0}}');
    expect(encodePredictV1([blob], "row").toString()).toBe('{"predictions":[{"b64":"YQ=="},{"b64":"Yg=="}]}');
    expect(encodePredictV1([empty], "row").toString()).toBe('{"predictions":[]}');
    expect(encodePredictV1([cube], "row").toString()).toBe('{"predictions":[[[1,2],[3,4]],[[5,6],[7,8]]]}');
    expect(messageOf(() => encodePredictV1([scores, scalar], "row"))).toContain(
      'output "loss" has the shape [], not one value per row',
    );
  });

  it("C004: an output without JSON form is refused before any work", () => {
    const spec = echoSpec("BF16", [2]);
    expect(messageOf(() => v1(spec, '{"instances":[[1,2]]}'))).toContain('output "y": BF16 has no JSON form');
  });
});
