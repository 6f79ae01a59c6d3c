import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import {
  GRPCInferenceServiceClient,
  ModelInferRequest,
  type ModelInferResponse,
} from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import { ModelVersion } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createSidecar, type Sidecar } from "../sidecar.js";
import { findTritonWheel, TritonProcess } from "./testing/triton-process.js";

const RECORD = ModelVersion.fromPartial({
  model: "ranker",
  version: 41n,
  serving: {
    inputs: [
      { name: "features", datatype: "FP32", shape: [-1n, 4n] },
      { name: "query", datatype: "BYTES", shape: [-1n, 1n] },
    ],
    outputs: [
      { name: "scores", datatype: "FP32", shape: [-1n, 4n] },
      { name: "label", datatype: "BYTES", shape: [-1n, 1n] },
    ],
    batching: { maxBatchSize: 8, maxQueueDelayUs: 20_000 },
  },
});

const BASE_PORT = 26_000;
const wheel = findTritonWheel();
if (wheel === undefined) {
  console.log("skipped: real Triton tests need the project's .venv with nvidia-pytriton (npm run setup)");
}

function request(value: number, text: string, rows = 1): ModelInferRequest {
  const features = Buffer.alloc(rows * 16);
  for (let index = 0; index < rows * 4; index += 1) features.writeFloatLE(value + index, index * 4);
  const element = Buffer.concat([Buffer.alloc(4), Buffer.from(text)]);
  element.writeUInt32LE(Buffer.byteLength(text));
  return ModelInferRequest.fromPartial({
    modelName: "ranker",
    inputs: [
      { name: "features", datatype: "FP32", shape: [BigInt(rows), 4n] },
      { name: "query", datatype: "BYTES", shape: [BigInt(rows), 1n] },
    ],
    outputs: [{ name: "scores" }, { name: "label" }],
    rawInputContents: [features, Buffer.concat(Array.from({ length: rows }, () => element))],
  });
}

describe.skipIf(wheel === undefined)("on a real Triton", () => {
  let directory = "";
  let triton: TritonProcess;
  let sidecar: Sidecar;
  let client: GRPCInferenceServiceClient;
  let direct: GRPCInferenceServiceClient;

  beforeAll(async () => {
    if (wheel === undefined) return;
    directory = mkdtempSync(join(tmpdir(), "servemesh-triton-"));
    triton = new TritonProcess(wheel, directory, BASE_PORT);
    triton.start();
    sidecar = await createSidecar(
      {
        model: "ranker",
        version: 41n,
        replicaId: "r1",
        listen: { host: "127.0.0.1", port: BASE_PORT + 3 },
        triton: triton.address,
        record: RECORD,
      },
      {
        logger: pino({ level: "silent" }),
        loadTransform: (name) => {
          throw new Error(`no transform ${name}`);
        },
        processMetrics: false,
      },
    );
    client = new GRPCInferenceServiceClient(sidecar.address, credentials.createInsecure());
    direct = new GRPCInferenceServiceClient(`127.0.0.1:${BASE_PORT}`, credentials.createInsecure());
    await vi.waitFor(() => expect(sidecar.ready).toBe(true), { timeout: 60_000, interval: 100 });
  }, 90_000);

  afterAll(async () => {
    client?.close();
    direct?.close();
    await sidecar?.close();
    await triton?.kill();
    if (directory !== "") rmSync(directory, { recursive: true, force: true });
  });

  const infer = (
    on: GRPCInferenceServiceClient,
    message: ModelInferRequest,
  ): Promise<ModelInferResponse | ServiceError> =>
    new Promise((resolve) => {
      on.modelInfer(
        message,
        new Metadata(),
        { deadline: Date.now() + 10_000 },
        (error: ServiceError | null, answer?: ModelInferResponse) => resolve(error ?? (answer as ModelInferResponse)),
      );
    });
  const answerOf = async (value: number, text: string, rows = 1): Promise<string> => {
    const answer = await infer(client, request(value, text, rows));
    if (answer instanceof Error) return `${status[(answer as ServiceError).code]}: ${(answer as ServiceError).details}`;
    const [scores, label] = (answer as ModelInferResponse).rawOutputContents;
    return `${scores?.readFloatLE(0)} ${label?.subarray(4, 4 + label.readUInt32LE(0)).toString()} ${label?.length}`;
  };

  it("answers a batch of one byte for byte as Triton does (C062)", async () => {
    const message = request(3, "größe", 2);
    const [through, straight] = (await Promise.all([
      infer(client, message),
      infer(direct, message),
    ])) as ModelInferResponse[];
    expect(through?.rawOutputContents).toEqual(straight?.rawOutputContents);
    expect(through?.outputs.map(({ name, datatype, shape }) => ({ name, datatype, shape }))).toEqual(
      straight?.outputs.map(({ name, datatype, shape }) => ({ name, datatype, shape })),
    );
  });

  it("gives every caller of a batch its own rows, FP32 and BYTES", async () => {
    const texts = ["", "a", "bb", "日本", "x".repeat(300), "e", "f", "g"];
    const answers = await Promise.all(texts.map((text, index) => answerOf(index * 100, text)));
    expect(answers).toEqual(texts.map((text, index) => `${index * 100} ${text} ${4 + Buffer.byteLength(text)}`));
  });

  it("sees a killed python process by its answers and loads the model again", async () => {
    process.kill(triton.stubPid(), "SIGKILL");
    await expect.poll(() => answerOf(1, "a"), { timeout: 10_000 }).toMatch(/^UNAVAILABLE/);
    await expect.poll(() => sidecar.ready, { interval: 5, timeout: 5_000 }).toBe(false);
    await expect.poll(() => answerOf(2, "b"), { timeout: 30_000 }).toBe("2 b 5");
  }, 60_000);

  it("fails calls at once while Triton is gone and works again when it is back (C067)", async () => {
    await triton.kill();
    const startMs = performance.now();
    expect(await answerOf(1, "a")).toMatch(/^UNAVAILABLE/);
    expect(performance.now() - startMs).toBeLessThan(5_000);
    await expect.poll(() => sidecar.ready, { timeout: 5_000 }).toBe(false);
    triton.start();
    await expect.poll(() => answerOf(4, "d"), { timeout: 60_000, interval: 200 }).toBe("4 d 5");
  }, 90_000);
});
