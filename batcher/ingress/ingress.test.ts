import { type ClientHttp2Stream, connect, type IncomingHttpHeaders } from "node:http2";
import {
  type ModelConfigResponse,
  ModelInferRequest,
  type ModelMetadataResponse,
} from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import { afterEach, describe, expect, it } from "vitest";
import { type Cancellation, PredictError } from "../request.js";
import {
  byteElements,
  echoPredictor,
  FakePredictor,
  floats,
  int64s,
  Loopback,
  metadataOf,
  restCall,
  see,
} from "./testing/loopback.js";
import { echoSpec, rankerSpec } from "./testing/ranker-spec.js";

const MESH = {
  "x-servemesh-route": "ranker/prod",
  "x-servemesh-tenant": "acme",
  "x-servemesh-version": "ranker:41",
  "x-servemesh-first": "ranker:41,ranker:42",
  "x-request-id": "id-1",
};

let open: Loopback[] = [];

async function start(...args: Parameters<typeof Loopback.start>): Promise<Loopback> {
  const loopback = await Loopback.start(...args);
  open.push(loopback);
  return loopback;
}

afterEach(() => {
  for (const loopback of open) loopback.stop();
  open = [];
});

const ONE_ROW = { inputs: [{ name: "x", datatype: "FP32", shape: [1n, 1n] }], rawInputContents: [floats(7)] };

describe("a predict call", () => {
  const predictor = () =>
    new FakePredictor(
      () => [
        { name: "scores", datatype: "FP32", shape: [1, 1], data: floats(0.73) },
        { name: "label", datatype: "BYTES", shape: [1, 1], data: byteElements("good") },
      ],
      { timings: { features: 0.5, queue: 1.25 } },
    );
  const headers = { ...MESH, "x-servemesh-first": "ranker:42", "x-envoy-attempt-count": "2" };

  it("is answered by gRPC with raw contents, the name as asked and the version that served", async () => {
    const fake = predictor();
    const mesh = await start(rankerSpec(), fake);
    const seen = await mesh.infer(
      {
        modelName: "ranker@prod",
        id: "42",
        parameters: { a: { parameterChoice: { $case: "int64Param", value: 7n } } },
        inputs: [
          { name: "user_id", datatype: "INT64", shape: [1n, 1n] },
          { name: "features", datatype: "FP32", shape: [1n, 4n] },
          { name: "query", datatype: "BYTES", shape: [1n, 1n] },
        ],
        rawInputContents: [int64s(9007199254740993n), floats(1, 2, 3, 4), byteElements("a")],
      },
      headers,
      { deadline: Date.now() + 5000 },
    );
    expect(seen.message).toBe("");
    expect(seen.answer).toMatchObject({ modelName: "ranker@prod", modelVersion: "41", id: "42" });
    expect(seen.answer?.rawOutputContents).toEqual([floats(0.73), byteElements("good")]);
    expect(seen.headers.get("server-timing")).toEqual(["features;dur=0.500, queue;dur=1.250"]);
    expect(seen.headers.get("x-servemesh-served-by")).toEqual(["ranker:41; fallback=saturated"]);
    const request = fake.requests[0];
    expect(request?.context).toMatchObject({ tenant: "acme", route: "ranker/prod", requestId: "id-1", attempt: 2 });
    expect(request?.parameters).toEqual(new Map([["a", 7n]]));
    expect(request?.inputs.map(({ name }) => name)).toEqual(["features", "user_id", "query"]);
    const remainingMs = (request?.context.deadlineAtMs ?? 0) - (request?.context.arrivedAtMs ?? 0);
    expect(remainingMs).toBeGreaterThan(4000);
    expect(remainingMs).toBeLessThanOrEqual(4999);
    expect(mesh.done).toMatchObject([{ door: "grpc", method: "ModelInfer", outcome: "ok" }]);
  });

  it("is answered by TF-Serving REST", async () => {
    const mesh = await start(rankerSpec(), predictor());
    const body = '{"instances":[{"features":[1,2,3,4],"user_id":9007199254740993,"query":"a"}]}';
    const seen = await mesh.predictV1(body, headers, { model: "ranker", label: "prod" });
    expect(seen.message).toBe("");
    expect(seen.answer?.contentType).toBe("application/json");
    expect(seen.answer?.data.toString()).toBe('{"predictions":[{"scores":[0.73],"label":["good"]}]}');
    expect(seen.headers.get("x-servemesh-served-by")).toEqual(["ranker:41; fallback=saturated"]);
    expect(mesh.done).toMatchObject([{ door: "rest_v1", method: "PredictV1", outcome: "ok" }]);
  });

  it("is answered by KServe v2 REST with the binary extension", async () => {
    const mesh = await start(rankerSpec(), predictor());
    const head = JSON.stringify({
      id: "42",
      inputs: [
        { name: "features", datatype: "FP32", shape: [1, 4], parameters: { binary_data_size: 16 } },
        { name: "user_id", datatype: "INT64", shape: [1, 1], parameters: { binary_data_size: 8 } },
        { name: "query", datatype: "BYTES", shape: [1, 1], data: ["a"] },
      ],
      outputs: [{ name: "scores", parameters: { binary_data: true } }, { name: "label" }],
    });
    const seen = await mesh.inferV2(
      Buffer.concat([Buffer.from(head), floats(1, 2, 3, 4), int64s(1n)]),
      { ...MESH, "inference-header-content-length": `${head.length}` },
      { model: "ranker@prod" },
    );
    expect(seen.message).toBe("");
    const headBytes = Number(seen.headers.get("inference-header-content-length")[0]);
    const answer = JSON.parse(seen.answer?.data.subarray(0, headBytes).toString() ?? "");
    expect(answer).toMatchObject({ model_name: "ranker@prod", model_version: "41", id: "42" });
    expect(answer.outputs).toEqual([
      { name: "scores", datatype: "FP32", shape: [1, 1], parameters: { binary_data_size: 4 } },
      { name: "label", datatype: "BYTES", shape: [1, 1], data: ["good"] },
    ]);
    expect(seen.answer?.data.subarray(headBytes)).toEqual(floats(0.73));
  });
});

describe("a refusal", () => {
  it("has the same status, reason and message on every door", async () => {
    const mesh = await start(echoSpec("FP32", [4]), echoPredictor());
    const shapes: [number[], string][] = [
      [[0, 4], 'input "x": batch of 0 rows; send at least one'],
      [[9, 4], 'input "x": 9 rows, the model\'s max_batch_size is 8; split the request'],
    ];
    for (const [shape, message] of shapes) {
      const values = new Array<number>((shape[0] ?? 0) * 4).fill(1);
      const rows = Array.from({ length: shape[0] ?? 0 }, () => [1, 1, 1, 1]);
      const input = { name: "x", datatype: "FP32", shape };
      const size = values.length * 4;
      const head = JSON.stringify({ inputs: [{ ...input, parameters: { binary_data_size: size } }] });
      const wire = { ...input, shape: shape.map(BigInt) };
      const doors = [
        await mesh.infer({ inputs: [wire], rawInputContents: [Buffer.alloc(size)] }, MESH),
        await mesh.infer({ inputs: [{ ...wire, contents: { fp32Contents: values } }] }, MESH),
        await mesh.predictV1(JSON.stringify({ instances: rows }), MESH),
        await mesh.predictV1(JSON.stringify({ inputs: { x: rows } }), MESH),
        await mesh.inferV2(JSON.stringify({ inputs: [{ ...input, data: values }] }), MESH),
        await mesh.inferV2(Buffer.concat([Buffer.from(head), Buffer.alloc(size)]), {
          ...MESH,
          "inference-header-content-length": `${head.length}`,
        }),
      ];
      for (const seen of doors) expect(seen).toMatchObject({ code: 3, reason: "bad_input", message });
    }
  });

  it("names a differing reference on every door", async () => {
    const mesh = await start(echoSpec("FP32", [1]), echoPredictor());
    const doors = [
      await mesh.infer({ ...ONE_ROW, modelName: "evil" }, MESH),
      await mesh.predictV1('{"instances":[[1]]}', MESH, { model: "evil" }),
      await mesh.inferV2('{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1]}]}', MESH, {
        model: "evil",
      }),
    ];
    const message = 'model "evil" differs from the route "ranker/prod" of the request; send one reference';
    for (const seen of doors) expect(seen).toMatchObject({ code: 3, reason: "bad_input", message });
  });

  it("is trailers-only", async () => {
    const mesh = await start(echoSpec("FP32", [1]), echoPredictor());
    const body = ModelInferRequest.encode(ModelInferRequest.fromPartial({ modelName: "evil" })).finish();
    const { headers, endStream } = await rawCall(mesh.port, "/inference.GRPCInferenceService/ModelInfer", body);
    expect(endStream).toBe(true);
    expect(headers["grpc-status"]).toBe("5");
    expect(headers["x-servemesh-reason"]).toBe("model_not_found");
  });

  it("carries the pipeline's reason and waiting time", async () => {
    const refuse = new FakePredictor(() => Promise.reject(new PredictError("overloaded", "64 requests wait", 1500)));
    const mesh = await start(echoSpec("FP32", [1]), refuse);
    const seen = await mesh.infer(ONE_ROW);
    expect(seen).toMatchObject({ code: 8, reason: "overloaded", message: "64 requests wait" });
    expect(seen.headers.get("retry-after")).toEqual(["2"]);
  });

  it("hides what went wrong inside, and logs it", async () => {
    const broken = new FakePredictor(() => {
      throw new TypeError("secret detail");
    });
    const mesh = await start(echoSpec("FP32", [1]), broken);
    const seen = await mesh.infer(ONE_ROW);
    expect(seen).toMatchObject({ code: 13, reason: "internal" });
    expect(seen.message).not.toContain("secret");
    expect(mesh.logged).toEqual(["unexpected error in a call"]);
  });

  it("C011: comes for an answer that JSON cannot carry, while gRPC gets the bytes", async () => {
    const mesh = await start(echoSpec("BYTES", [1]), echoPredictor());
    const raw = byteElements(Buffer.from("fffe00", "hex"));
    const input = { name: "x", datatype: "BYTES", shape: [1n, 1n] };
    const grpc = await mesh.infer({ inputs: [input], rawInputContents: [raw] });
    expect(grpc.answer?.rawOutputContents).toEqual([raw]);
    const rest = await mesh.predictV1('{"instances":[{"b64":"//4A"}]}');
    expect(rest).toMatchObject({ code: 3, reason: "bad_input" });
    expect(rest.message).toContain('output "y": element 0 is not UTF-8');
  });

  it("C026, C037: has its own reason for media type, emptiness and size", async () => {
    const mesh = await start(echoSpec("FP32", [1]), echoPredictor(), { limits: { maxRequestBytes: 1024 } });
    const body = (contentType: string, data: Buffer) => ({ body: { contentType, data, extensions: [] } });
    const utf16 = await mesh.predictV1("", {}, body("text/plain; charset=utf-16", Buffer.from("{}")));
    expect(utf16).toMatchObject({ code: 3, reason: "unsupported_media_type" });
    const form = await mesh.predictV1(
      "",
      {},
      body("application/x-www-form-urlencoded", Buffer.from('{"instances":[[1]]}')),
    );
    expect(form.answer?.data.toString()).toBe('{"predictions":[[1.0]]}');
    expect(await mesh.predictV1("")).toMatchObject({
      code: 3,
      reason: "bad_input",
      message: "body is empty; send a JSON object",
    });
    const large = await mesh.predictV1(`{"instances":[[1${" ".repeat(1200)}]]}`);
    expect(large).toMatchObject({ code: 8, reason: "too_large" });
    expect(large.message).toContain("the batcher takes 1024");
    expect(await mesh.infer({ ...ONE_ROW, rawInputContents: [Buffer.alloc(1100)] })).toMatchObject({
      code: 8,
      reason: "too_large",
    });
    // C038: far beyond the limit grpc-js itself refuses, and the connection stays usable.
    expect(await mesh.infer({ ...ONE_ROW, rawInputContents: [Buffer.alloc(100_000)] })).toMatchObject({ code: 8 });
    expect(await mesh.infer(ONE_ROW)).toMatchObject({ code: 0 });
  });

  it("tells not ready from draining", async () => {
    const mesh = await start(echoSpec("FP32", [1]), echoPredictor());
    mesh.serve({ ready: false });
    expect(await mesh.infer(ONE_ROW)).toMatchObject({ code: 14, reason: "unavailable" });
    mesh.serve({ ready: true, draining: true });
    expect(await mesh.predictV1('{"instances":[[1]]}')).toMatchObject({ code: 14, reason: "draining" });
    mesh.serve(undefined);
    expect(await mesh.infer(ONE_ROW)).toMatchObject({ code: 14, reason: "unavailable" });
  });

  it("meets direct calls where they are not allowed", async () => {
    const mesh = await start(echoSpec("FP32", [1]), echoPredictor(), { allowDirect: false });
    expect(await mesh.infer(ONE_ROW)).toMatchObject({ code: 16, reason: "unauthenticated" });
    expect(await mesh.infer(ONE_ROW, MESH)).toMatchObject({ code: 0 });
  });

  it("answers methods that are not offered", async () => {
    const mesh = await start(echoSpec("FP32", [1]), echoPredictor());
    const seen = await see((done) => mesh.clients.inference.modelStatistics({ name: "ranker", version: "" }, done));
    expect(seen).toMatchObject({ code: 12, reason: "path_not_found" });
    const stream = mesh.clients.inference.modelStreamInfer();
    const error = await new Promise<{ code: number; metadata: { get(name: string): unknown[] } }>((resolve) =>
      stream.on("error", (cause) => resolve(cause as never)),
    );
    expect(error.code).toBe(12);
    expect(error.metadata.get("x-servemesh-reason")).toEqual(["path_not_found"]);
  });

  it("comes for messages that are no protobuf", async () => {
    const mesh = await start(echoSpec("FP32", [1]), echoPredictor());
    for (const path of ["inference.GRPCInferenceService/ModelMetadata", "servemesh.rest.v1.RestService/PredictV1"]) {
      const { headers } = await rawCall(mesh.port, `/${path}`, Buffer.from("0aff", "hex"));
      expect(headers["grpc-status"]).toBe("3");
      expect(headers["x-servemesh-reason"]).toBe("bad_input");
    }
  });
});

describe("time", () => {
  it("ends a call at its deadline with the reason, cancels the work, and ignores its late answer", async () => {
    let cancellation: Cancellation | undefined;
    let cancelled = 0;
    const slow = new FakePredictor(async (request, token) => {
      cancellation = token;
      token.onCancel = () => {
        cancelled += 1;
      };
      await new Promise((resolve) => setTimeout(resolve, 150));
      return request.inputs.map((input) => ({ ...input, name: "y" }));
    });
    const mesh = await start(echoSpec("FP32", [1]), slow);
    const seen = await mesh.infer(ONE_ROW, { ...MESH, "x-envoy-expected-rq-timeout-ms": "60" });
    expect(seen).toMatchObject({ code: 4, reason: "deadline" });
    expect(cancelled).toBe(1);
    expect(cancellation?.cancelled).toBe(true);
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect(mesh.done.length).toBe(1);
    expect(mesh.logged).toEqual([]);
  });

  it("refuses at once what has no time left", async () => {
    const predictor = echoPredictor();
    const mesh = await start(echoSpec("FP32", [1]), predictor);
    const seen = await mesh.infer(ONE_ROW, { ...MESH, "x-envoy-expected-rq-timeout-ms": "1" });
    expect(seen).toMatchObject({ code: 4, reason: "deadline" });
    expect(predictor.requests.length).toBe(0);
  });

  it("tells the work that the caller has gone, once, and counts no answer", async () => {
    let arrived: () => void = () => {};
    const here = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    let gone: () => void = () => {};
    const left = new Promise<void>((resolve) => {
      gone = resolve;
    });
    const waiting = new FakePredictor((_request, token) => {
      token.onCancel = gone;
      arrived();
      return left.then(() => Promise.reject(new PredictError("deadline", "late")));
    });
    const mesh = await start(echoSpec("FP32", [1]), waiting);
    const message = ModelInferRequest.fromPartial({ modelName: "ranker", ...ONE_ROW });
    const call = mesh.clients.inference.modelInfer(message, metadataOf(MESH), () => {});
    await here;
    call.cancel();
    await left;
    await new Promise((resolve) => setImmediate(resolve));
    expect(mesh.done).toMatchObject([{ outcome: "cancelled" }]);
  });
});

describe("descriptions", () => {
  it("are given by gRPC", async () => {
    const mesh = await start(rankerSpec(), echoPredictor());
    const { inference } = mesh.clients;
    expect((await see((done) => inference.serverLive({}, done))).answer).toEqual({ live: true });
    expect((await see((done) => inference.serverReady({}, done))).answer).toEqual({ ready: true });
    expect((await see((done) => inference.serverMetadata({}, done))).answer).toMatchObject({ name: "servemesh" });
    const asked = { name: "ranker:41", version: "" };
    expect((await see((done) => inference.modelReady(asked, done))).answer).toEqual({ ready: true });
    const metadata = await see<ModelMetadataResponse>((done) => inference.modelMetadata(asked, done));
    expect(metadata.answer).toMatchObject({ name: "ranker:41", versions: ["41"] });
    expect(metadata.answer?.inputs[0]).toEqual({ name: "features", datatype: "FP32", shape: [-1n, 4n] });
    const config = await see<ModelConfigResponse>((done) => inference.modelConfig(asked, done));
    expect(config.answer?.config).toMatchObject({ name: "ranker:41", maxBatchSize: 8 });
    expect(config.answer?.config?.input[0]).toMatchObject({ name: "features", dataType: 11, dims: [4n] });
    expect(config.answer?.config?.schedulingChoice).toMatchObject({ $case: "dynamicBatching" });
    const other = await see((done) => inference.modelMetadata({ name: "other", version: "" }, done));
    expect(other).toMatchObject({ code: 5, reason: "model_not_found" });
    mesh.serve({ ready: false });
    expect((await see((done) => inference.serverReady({}, done))).answer).toEqual({ ready: false });
    expect((await see((done) => inference.modelReady(asked, done))).answer).toEqual({ ready: false });
  });

  it("are given by REST", async () => {
    const mesh = await start(rankerSpec(), echoPredictor());
    const { rest } = mesh.clients;
    const get = { ...restCall(""), body: undefined };
    const text = async (
      method:
        | "statusV1"
        | "metadataV1"
        | "modelMetadataV2"
        | "modelReadyV2"
        | "modelConfigV2"
        | "serverMetadataV2"
        | "serverLiveV2"
        | "serverReadyV2",
    ) => {
      const seen = await see<{ data: Buffer }>((done) => rest[method](get, metadataOf({}), done));
      return seen.answer === undefined ? seen : JSON.parse(seen.answer.data.toString());
    };
    expect(await text("statusV1")).toEqual({
      model_version_status: [{ version: "41", state: "AVAILABLE", status: { error_code: "OK", error_message: "" } }],
    });
    const signature = (await text("metadataV1")).metadata.signature_def.signature_def.serving_default;
    expect(signature.inputs.features).toEqual({
      name: "features",
      dtype: "DT_FLOAT",
      tensor_shape: {
        dim: [
          { size: "-1", name: "" },
          { size: "4", name: "" },
        ],
        unknown_rank: false,
      },
    });
    expect(await text("modelMetadataV2")).toMatchObject({
      name: "ranker",
      versions: ["41"],
      outputs: [
        { name: "scores", datatype: "FP32", shape: [-1, 1] },
        { name: "label", datatype: "BYTES", shape: [-1, 1] },
      ],
    });
    expect(await text("modelReadyV2")).toEqual({ name: "ranker", ready: true });
    expect(await text("modelConfigV2")).toMatchObject({
      max_batch_size: 8,
      output: [{ data_type: "TYPE_FP32", dims: [1] }, { data_type: "TYPE_STRING" }],
    });
    expect(await text("serverMetadataV2")).toMatchObject({
      name: "servemesh",
      extensions: ["binary_tensor_data", "model_configuration"],
    });
    expect(await text("serverLiveV2")).toEqual({ live: true });
    expect(await text("serverReadyV2")).toEqual({ ready: true });
    mesh.serve({ ready: false });
    expect(await text("serverReadyV2")).toMatchObject({ code: 14, reason: "unavailable" });
    expect((await text("statusV1")).model_version_status[0].state).toBe("LOADING");
  });
});

/** One unary gRPC call by hand, to see the frames. */
function rawCall(
  port: number,
  path: string,
  message: Uint8Array,
): Promise<{ headers: IncomingHttpHeaders; endStream: boolean }> {
  return new Promise((resolve, reject) => {
    const session = connect(`http://127.0.0.1:${port}`);
    session.on("error", reject);
    const stream: ClientHttp2Stream = session.request({
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream.on("response", (headers, flags) => {
      const endOfStream = 0x1;
      resolve({ headers, endStream: (flags & endOfStream) !== 0 });
      session.close();
    });
    stream.resume();
    const frame = Buffer.alloc(5 + message.length);
    frame.writeUInt32BE(message.length, 1);
    frame.set(message, 5);
    stream.end(frame);
  });
}
