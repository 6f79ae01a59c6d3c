import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type GrpcClient, int64Column, type Message } from "../support/grpc-client.js";
import { startTestMesh, type TestMesh } from "../support/mesh.js";
import type { RestAnswer, RestClient } from "../support/rest-client.js";

/** One caller's row: an id that no double holds, a text that careless code damages, and floats at the edges. */
interface Row {
  readonly id: bigint;
  readonly text: string;
  readonly value: readonly [number, number];
}

const BEYOND_DOUBLE = 9007199254740993n;
const TEXTS = ["he\u0000llo", '"\\\n', "日本", "", "a".repeat(300), "\u{1F600}", "NaN", "\t"];
const ROWS: readonly Row[] = TEXTS.map((text, index) => ({
  id: index % 2 === 0 ? BEYOND_DOUBLE + BigInt(index) : -(2n ** 63n) + BigInt(index),
  text,
  value: [-0, 1 + index / 8],
}));

/** KServe v2 with JSON, by hand: JSON.stringify has no 64-bit integers and no negative zero. */
function v2Json({ id, text, value }: Row): string {
  const floats = value.map((number) => (Object.is(number, -0) ? "-0.0" : `${number}`)).join(",");
  return (
    `{"inputs":[{"name":"id","datatype":"INT64","shape":[1,1],"data":[${id}]},` +
    `{"name":"text","datatype":"BYTES","shape":[1,1],"data":[${JSON.stringify(text)}]},` +
    `{"name":"value","datatype":"FP32","shape":[1,2],"data":[${floats}]}]}`
  );
}

function bytesElement(text: Uint8Array): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  return Buffer.concat([length, text]);
}

function raw(id: bigint, text: Uint8Array, value: Uint8Array): { request: Message; contents: readonly Buffer[] } {
  const column = int64Column("id", [id]);
  const contents = [column.raw, bytesElement(text), Buffer.from(value)];
  const inputs = [
    column.input,
    { name: "text", datatype: "BYTES", shape: ["1", "1"] },
    { name: "value", datatype: "FP32", shape: ["1", "2"] },
  ];
  return { request: { model_name: "echo-types", inputs, raw_input_contents: contents }, contents };
}

function floats(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [index, value] of values.entries()) bytes.writeFloatLE(value, index * 4);
  return bytes;
}

describe("values through Envoy, batcher and Triton, eight callers to a batch", () => {
  let mesh: TestMesh;
  let rest: RestClient;
  let grpc: GrpcClient;
  beforeAll(async () => {
    mesh = await startTestMesh("exact-values", {
      replicas: ["echo-types:1"],
      serving: { maxBatchSize: 8, maxQueueDelayUs: 50_000 },
    });
    rest = mesh.rest();
    grpc = mesh.grpc();
  });
  afterAll(async () => {
    rest?.close();
    grpc?.close();
    await mesh?.stop();
  });

  it("gRPC: every caller gets exactly its own bytes back, NaN payloads and bytes that are no UTF-8 included", async () => {
    const nans = [0x7fc00001, 0xffc12345, 0x00000001, 0x80000000, 0x7f800000, 0xff800000, 0x7f7fffff, 0x3f800000];
    const calls = ROWS.map(async ({ id }, index) => {
      const value = Buffer.alloc(8);
      value.writeUInt32LE(nans[index] as number, 0);
      const { request, contents } = raw(id, Buffer.from([0xff, 0xfe, 0, index]), value);
      const { code, message, answer } = await grpc.call({ request });
      expect({ code, message }).toEqual({ code: 0, message: "" });
      expect(answer?.raw_output_contents).toEqual(contents);
    });
    await Promise.all(calls);
  });

  it("v2 JSON and v1: ids beyond 2^53, texts and negative zero survive", async () => {
    const viaV2 = await Promise.all(
      ROWS.map((row) =>
        rest.call({
          path: "/v2/models/echo-types/infer",
          headers: { "content-type": "application/json" },
          body: v2Json(row),
        }),
      ),
    );
    const viaV1 = await Promise.all(
      ROWS.map(({ id, text, value }) =>
        rest.call({
          path: "/v1/models/echo-types:predict",
          headers: { "content-type": "application/json" },
          body: `{"instances":[{"id":${id},"text":${JSON.stringify(text)},"value":[-0.0,${value[1]}]}]}`,
        }),
      ),
    );
    for (const [index, { id, text, value }] of ROWS.entries()) {
      for (const answer of [viaV2[index], viaV1[index]] as RestAnswer[]) {
        const body = answer.body.toString();
        expect([answer.status, body]).toEqual([200, expect.anything()]);
        // As text, because JSON.parse would round the id.
        expect(body).toContain(`${id}`);
        expect(body).toContain(JSON.stringify(text));
        expect(body).toMatch(new RegExp(`-0(\\.0)?,\\s*${`${value[1]}`.replace(".", "\\.")}`));
      }
    }
  });

  it("v2 with binary tensors: the same bytes as by gRPC", async () => {
    const { id, text } = ROWS[2] as Row;
    const { contents } = raw(id, Buffer.from(text), floats(-0, 1.25));
    const [idBytes, textBytes, valueBytes] = contents as [Buffer, Buffer, Buffer];
    const head = Buffer.from(
      JSON.stringify({
        inputs: [
          { name: "id", datatype: "INT64", shape: [1, 1], parameters: { binary_data_size: idBytes.length } },
          { name: "text", datatype: "BYTES", shape: [1, 1], parameters: { binary_data_size: textBytes.length } },
          { name: "value", datatype: "FP32", shape: [1, 2], parameters: { binary_data_size: valueBytes.length } },
        ],
        parameters: { binary_data_output: true },
      }),
    );
    const answer = await rest.call({
      path: "/v2/models/echo-types/infer",
      headers: { "content-type": "application/octet-stream", "inference-header-content-length": `${head.length}` },
      body: Buffer.concat([head, ...contents]),
    });
    expect(answer.status).toBe(200);
    const headLength = Number(answer.headers["inference-header-content-length"]);
    expect(answer.body.subarray(headLength)).toEqual(Buffer.concat(contents));
  });
});
