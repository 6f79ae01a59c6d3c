import { connect } from "node:http2";
import { REFUSAL_STATUS, type Reason } from "@servemesh/proto/refusal";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type GrpcAnswer, type GrpcCall, type GrpcClient, int64Column, type Message } from "../support/grpc-client.js";
import { startTestMesh, type TestMesh } from "../support/mesh.js";
import type { RestAnswer, RestCall, RestClient } from "../support/rest-client.js";

const MIB = 1024 * 1024;
const GOOD = { user_id: 196, item_id: 242 };

/** The same mistake at each door that can express it. */
interface Mistake {
  readonly name: string;
  readonly reason: Reason;
  readonly v1?: RestCall;
  readonly v2?: RestCall;
  readonly grpc?: GrpcCall;
  /** What every door's text must say. */
  readonly says: RegExp;
}

function v1(value: unknown, path = "/v1/models/ranker:predict"): RestCall {
  return { path, body: typeof value === "string" ? value : JSON.stringify(value) };
}

function v2(value: unknown, path = "/v2/models/ranker/infer"): RestCall {
  return { path, body: typeof value === "string" ? value : JSON.stringify(value) };
}

interface Column {
  readonly name: string;
  readonly datatype?: string;
  readonly shape?: readonly number[];
  readonly data?: readonly unknown[];
}

const USER = { name: "user_id", datatype: "INT64", shape: [1, 1], data: [196] };
const ITEM = { name: "item_id", datatype: "INT64", shape: [1, 1], data: [242] };

/** Inputs of the v2 door; `user` overrides what is said of `user_id`. */
function inputs(user: Partial<Column> = {}): { inputs: readonly unknown[] } {
  return { inputs: [{ ...USER, ...user }, ITEM] };
}

/** A ModelInfer request of one row; `change` edits it. */
function infer(change: (request: Message) => void = () => {}, ids: readonly [bigint, bigint] = [196n, 242n]): Message {
  const user = int64Column("user_id", [ids[0]]);
  const item = int64Column("item_id", [ids[1]]);
  const request: Message = {
    model_name: "ranker",
    inputs: [user.input, item.input],
    raw_input_contents: [user.raw, item.raw],
  };
  change(request);
  return request;
}

const MISTAKES: readonly Mistake[] = [
  {
    name: "a model that is not there",
    reason: "model_not_found",
    says: /nosuch|model/,
    v1: v1({ instances: [GOOD] }, "/v1/models/nosuch:predict"),
    v2: v2(inputs(), "/v2/models/nosuch/infer"),
    grpc: { request: infer((request) => (request.model_name = "nosuch")) },
  },
  {
    name: "no key",
    reason: "unauthenticated",
    says: /key/,
    v1: { ...v1({ instances: [GOOD] }), headers: { "x-api-key": "" } },
    v2: { ...v2(inputs()), headers: { "x-api-key": "" } },
    grpc: { request: infer(), metadata: { "x-api-key": "" } },
  },
  {
    name: "a wrong shape",
    reason: "bad_input",
    says: /user_id/,
    v1: v1({ instances: [{ ...GOOD, user_id: [1, 2] }] }),
    v2: v2(inputs({ shape: [1, 2], data: [1, 2] })),
    grpc: {
      request: infer((request) => {
        request.inputs[0].shape = ["1", "2"];
        request.raw_input_contents[0] = Buffer.alloc(16);
      }),
    },
  },
  {
    name: "a wrong datatype",
    reason: "bad_input",
    says: /user_id/,
    v1: v1({ instances: [{ ...GOOD, user_id: 196.5 }] }),
    v2: v2(inputs({ datatype: "FP32", data: [196.5] })),
    grpc: {
      request: infer((request) => {
        request.inputs[0].datatype = "FP32";
        request.raw_input_contents[0] = Buffer.alloc(4);
      }),
    },
  },
  {
    name: "a short raw buffer",
    reason: "bad_input",
    says: /user_id.*8.*4|8 bytes/s,
    v2: binaryCall(Buffer.alloc(4)),
    grpc: { request: infer((request) => (request.raw_input_contents[0] = Buffer.alloc(4))) },
  },
  {
    name: "truncated JSON",
    reason: "bad_input",
    says: /JSON|offset|end/i,
    v1: v1('{"instances":[{"user_id":196,'),
    v2: v2('{"inputs":[{"name":"user_id"'),
  },
  {
    name: "NaN as JSON text",
    reason: "bad_input",
    says: /NaN|offset|JSON/i,
    v1: v1('{"instances":[{"user_id":NaN,"item_id":242}]}'),
    v2: v2('{"inputs":[{"name":"user_id","datatype":"INT64","shape":[1,1],"data":[NaN]}]}'),
  },
  {
    name: "conflicting pins",
    reason: "bad_input",
    says: /version|pin/i,
    v1: v1({ instances: [GOOD] }, "/v1/models/ranker:41/versions/42:predict"),
    v2: v2(inputs(), "/v2/models/ranker:41/versions/42/infer"),
    grpc: { request: infer((request) => Object.assign(request, { model_name: "ranker:41", model_version: "42" })) },
  },
  {
    name: "an alias and a version",
    reason: "bad_input",
    says: /version|pin/i,
    v1: v1({ instances: [GOOD] }, "/v1/models/ranker%40prod/versions/41:predict"),
    v2: v2(inputs(), "/v2/models/ranker%40prod/versions/41/infer"),
    grpc: { request: infer((request) => Object.assign(request, { model_name: "ranker@prod", model_version: "41" })) },
  },
  {
    name: "an escape that names are not decoded from",
    reason: "bad_input",
    says: /%|escape|path/i,
    v1: v1({ instances: [GOOD] }, "/v1/models/ranker%2Fx:predict"),
    v2: v2(inputs(), "/v2/models/ranker%2Fx/infer"),
  },
  {
    name: "a body of 2 MB where 1 MiB is the limit",
    reason: "too_large",
    says: /bytes|large|limit/i,
    v1: v1(`{"instances":[${JSON.stringify(GOOD)}],"padding":"${"x".repeat(2 * MIB)}"}`),
    v2: v2(`{"id":"${"x".repeat(2 * MIB)}"}`),
    grpc: { request: infer((request) => (request.raw_input_contents[0] = Buffer.alloc(2 * MIB))) },
  },
];

/** A v2 call with the binary tensor extension whose first tensor is `user`. */
function binaryCall(user: Uint8Array): RestCall {
  const item = int64Column("item_id", [242n]).raw;
  const head = JSON.stringify({
    inputs: [
      { name: "user_id", datatype: "INT64", shape: [1, 1], parameters: { binary_data_size: user.length } },
      { name: "item_id", datatype: "INT64", shape: [1, 1], parameters: { binary_data_size: item.length } },
    ],
  });
  return {
    path: "/v2/models/ranker/infer",
    headers: { "content-type": "application/octet-stream", "inference-header-content-length": `${head.length}` },
    body: Buffer.concat([Buffer.from(head), user, item]),
  };
}

function expectRestRefusal(answer: RestAnswer, { reason, says }: Mistake): void {
  const body = answer.json() as { error: string; code: number; reason: string };
  expect({ status: answer.status, header: answer.headers["x-servemesh-reason"], ...body, error: "" }).toEqual({
    status: REFUSAL_STATUS[reason].http,
    header: reason,
    error: "",
    code: REFUSAL_STATUS[reason].grpc,
    reason,
  });
  expect(body.error).toMatch(says);
}

function expectGrpcRefusal(answer: GrpcAnswer, { reason, says }: Pick<Mistake, "reason" | "says">): void {
  expect({ code: answer.code, reason: answer.headers.get("x-servemesh-reason") }).toEqual({
    code: REFUSAL_STATUS[reason].grpc,
    reason,
  });
  expect(answer.message).toMatch(says);
}

describe("bad input at every door of a real mesh", () => {
  let mesh: TestMesh;
  let rest: RestClient;
  let grpc: GrpcClient;
  beforeAll(async () => {
    mesh = await startTestMesh("bad-input", {
      replicas: ["ranker:41", "ranker:43"],
      staging: ["ranker:43"],
      shadow: 43,
      maxRequestBytes: MIB,
      serving: { maxQueueDelayUs: 20_000, cacheEnabled: false },
    });
    rest = mesh.rest();
    grpc = mesh.grpc();
  });
  afterAll(async () => {
    rest?.close();
    grpc?.close();
    await mesh?.stop();
  });

  const json = { "content-type": "application/json" };
  for (const mistake of MISTAKES) {
    const { name, v1, v2, grpc: message } = mistake;
    for (const [door, call] of Object.entries({ v1, v2 })) {
      if (call === undefined) continue;
      it(`${door}: ${name}`, async () => {
        expectRestRefusal(await rest.call({ ...call, headers: { ...json, ...call.headers } }), mistake);
      });
    }
    if (message === undefined) continue;
    it(`gRPC: ${name}`, async () => {
      expectGrpcRefusal(await grpc.call(message), mistake);
    });
  }

  it("gRPC: refuses a message that ends in the middle", async () => {
    // Field 7 (raw_input_contents) promises 100 bytes of which 3 come.
    const message = Buffer.concat([Buffer.from([0x0a, 6]), Buffer.from("ranker"), Buffer.from([0x3a, 100, 1, 2, 3])]);
    expectGrpcRefusal(await sendFrame(mesh, 0, message), {
      reason: "bad_input",
      says: /message|truncated|field|bytes/i,
    });
  });

  it("gRPC: refuses a compressed frame, whose name the gate cannot read", async () => {
    expectGrpcRefusal(await sendFrame(mesh, 1, Buffer.from([0x1f, 0x8b, 8, 0])), {
      reason: "bad_input",
      says: /compress/i,
    });
    const gzip = mesh.grpc({ "grpc.default_compression_algorithm": 2 });
    expectGrpcRefusal(await gzip.call({ request: infer() }), { reason: "bad_input", says: /compress/i });
    gzip.close();
  });

  it.each(["ranker%40prod", "ranker%3A41", "ranker@prod", "ranker:41"])("takes %s in a path", async (name) => {
    const viaV2 = await rest.post(`/v2/models/${name}/infer`, inputs());
    expect([viaV2.status, viaV2.headers["x-servemesh-served-by"]]).toEqual([200, "ranker:41"]);
    const viaV1 = await rest.post(`/v1/models/${name}:predict`, { instances: [GOOD] });
    expect([viaV1.status, viaV1.headers["x-servemesh-served-by"]]).toEqual([200, "ranker:41"]);
  });

  it("keeps 64-bit ids beyond 2^53 exact on every door", async () => {
    const id = 9007199254740993n;
    const bytes = int64Column("user_id", [id]).raw.toString("base64");
    const viaV1 = await rest.call({ ...v1(`{"instances":[{"user_id":${id},"item_id":242}]}`), headers: json });
    const viaV2 = await rest.call({
      ...v2(`{"inputs":[{"name":"user_id","datatype":"INT64","shape":[1,1],"data":[${id}]},${JSON.stringify(ITEM)}]}`),
      headers: json,
    });
    const viaGrpc = await grpc.call({ request: infer(undefined, [id, 242n]) });
    expect([viaV1.status, viaV2.status, viaGrpc.code]).toEqual([200, 200, 0]);
    for (const requestId of [
      String(viaV1.headers["x-request-id"]),
      String(viaV2.headers["x-request-id"]),
      String(viaGrpc.headers.get("x-request-id")),
    ]) {
      const { primary, shadow } = await mesh.journalPair(requestId);
      for (const record of [primary, shadow]) {
        const user = record.inputs.find((input) => input.name === "user_id");
        expect(Buffer.from(user?.data ?? []).toString("base64")).toBe(bytes);
      }
    }
  });

  it("leaves the neighbours in the batch unharmed", async () => {
    const calls: Promise<RestAnswer>[] = [];
    for (let caller = 0; caller < 8; caller++) {
      const good = { user_id: 300 + caller, item_id: 50 };
      const bad = { user_id: "no number", item_id: 50 };
      calls.push(rest.post("/v1/models/ranker:predict", { instances: [caller === 3 ? bad : good] }));
    }
    const answers = await Promise.all(calls);
    expect(answers.map((answer) => answer.status)).toEqual([200, 200, 200, 400, 200, 200, 200, 200]);
    // The same rows alone give the same answers: nobody got another's row.
    for (const [caller, answer] of answers.entries()) {
      if (caller === 3) continue;
      const alone = await rest.post("/v1/models/ranker:predict", {
        instances: [{ user_id: 300 + caller, item_id: 50 }],
      });
      expect(answer.json()).toEqual(alone.json());
    }
  });
});

/** Sends one gRPC frame as it is, with its compression flag, over a raw HTTP/2 stream. */
function sendFrame(mesh: TestMesh, flag: number, message: Buffer): Promise<GrpcAnswer> {
  const head = Buffer.alloc(5);
  head.writeUInt8(flag, 0);
  head.writeUInt32BE(message.length, 1);
  const session = connect(`http://${mesh.httpAddress}`);
  const stream = session.request({
    ":method": "POST",
    ":path": "/inference.GRPCInferenceService/ModelInfer",
    "content-type": "application/grpc",
    "x-api-key": mesh.apiKey,
    te: "trailers",
    ...(flag === 1 && { "grpc-encoding": "gzip" }),
  });
  return new Promise((resolve, reject) => {
    const headers = new Map<string, string>();
    const keep = (received: object) => {
      for (const [name, value] of Object.entries(received)) headers.set(name, String(value));
    };
    stream.on("response", keep);
    stream.on("trailers", keep);
    stream.on("error", reject);
    stream.on("close", () => {
      session.close();
      const text = decodeURIComponent(headers.get("grpc-message") ?? "");
      resolve({ code: Number(headers.get("grpc-status")), message: text, headers });
    });
    stream.resume();
    stream.end(Buffer.concat([head, message]));
  });
}
