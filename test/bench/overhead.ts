import { join } from "node:path";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { findBasePort, type LocalMesh, type MeshContents, repositoryRoot, startLocalMesh } from "@servemesh/envoy";
import { ModelInferRequest, ModelInferResponse } from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import { H_API_KEY } from "@servemesh/proto/names";
import { type BareEnvoy, startBareEnvoy } from "./bare-envoy.js";
import { interleave, type Leg, type LegFigures } from "./interleave.js";
import { atMost, type BenchResult, markdownTable, round } from "./report.js";

const RATE_PER_SECOND = 200;
const ROUNDS = 7;
const ROUND_MS = 4_000;
const WARM_UP_MS = 10_000;
const WIDTH = 16;
const METHOD = "/inference.GRPCInferenceService/ModelInfer";

/** One replica of a model that gives its input back: all time is the way, none the model. */
const CONTENTS: MeshContents = {
  models: [{ name: "echo", deadlineMs: 2_000 }],
  versions: [
    {
      reference: "echo:1",
      stage: "production",
      serving: { maxQueueDelayUs: 0, maxBatchSize: 8, cacheEnabled: false },
    },
  ],
  aliases: [{ model: "echo", alias: "prod", split: [{ version: 1n, weight: 1 }] }],
  replicas: ["echo:1"],
};

/**
 * What the mesh adds to a call: client → Triton, → batcher → Triton, → Envoy + gate → batcher → Triton, all to the same Triton,
 * in one run, at a rate that leaves every part idle most of the time. A bare Envoy before the same Triton shows what any
 * gateway on Envoy costs on this machine.
 */
export async function overhead(): Promise<BenchResult> {
  const basePort = await findBasePort(2, 20_000, 32_000);
  const folder = join(repositoryRoot, "var/bench/overhead");
  const mesh = await startLocalMesh({ folder, basePort, contents: CONTENTS });
  try {
    // The ports of the second replica, which the mesh does not have.
    const ports = { door: basePort + 20, admin: basePort + 21 };
    const bareEnvoy = await startBareEnvoy(folder, ports, mesh.replicas[0]?.tritonAddress ?? "");
    try {
      return await measure(mesh, bareEnvoy);
    } finally {
      await bareEnvoy.stop();
    }
  } finally {
    await mesh.stop();
  }
}

async function measure(mesh: LocalMesh, bareEnvoy: BareEnvoy): Promise<BenchResult> {
  const clients = createLegs(mesh, bareEnvoy);
  try {
    const figures = await interleave(clients.legs, {
      rounds: ROUNDS,
      ratePerSecond: RATE_PER_SECOND,
      roundMs: ROUND_MS,
      warmUpMs: WARM_UP_MS,
      onRound: (index, leg) => process.stderr.write(`round ${index + 1} of ${ROUNDS}: ${leg}\n`),
    });
    return report(figures);
  } finally {
    clients.close();
  }
}

function createLegs(mesh: LocalMesh, bareEnvoy: BareEnvoy): { readonly legs: readonly Leg[]; close(): void } {
  const [replica] = mesh.replicas;
  const triton = replica?.triton.pid;
  const batcher = replica?.batcher.pid;
  const envoy = mesh.gateway.pid;
  if (replica === undefined || triton === undefined || batcher === undefined || envoy === undefined) {
    throw new Error("a part of the mesh ended before the benchmark began; see the logs in var/bench/overhead/logs");
  }
  const ways = [
    { name: "triton", address: replica.tritonAddress, pids: [triton], key: undefined },
    { name: "bare Envoy", address: bareEnvoy.address, pids: [triton, bareEnvoy.pid], key: undefined },
    { name: "batcher", address: replica.batcherAddress, pids: [triton, batcher], key: undefined },
    { name: "mesh", address: mesh.grpcAddress, pids: [triton, batcher, envoy], key: mesh.apiKey },
  ];
  const callers = ways.map(({ name, address, pids, key }) => ({ name, pids, ...createCaller(address, key) }));
  return {
    legs: callers,
    close: () => {
      for (const caller of callers) caller.close();
    },
  };
}

/** Calls with a message that is encoded once, and looks for its bytes in every answer: the client should cost next to nothing. */
function createCaller(address: string, apiKey: string | undefined): { call(): Promise<void>; close(): void } {
  const client = new Client(address, credentials.createInsecure());
  const metadata = new Metadata();
  if (apiKey !== undefined) metadata.set(H_API_KEY, apiKey);
  const raw = Buffer.from(Float32Array.from({ length: WIDTH }, (_, index) => index + 0.5).buffer);
  const message = Buffer.from(
    ModelInferRequest.encode(
      ModelInferRequest.fromPartial({
        modelName: "echo",
        inputs: [{ name: "input", datatype: "FP32", shape: [1n, BigInt(WIDTH)] }],
        rawInputContents: [raw],
      }),
    ).finish(),
  );
  const asIs = (bytes: Buffer): Buffer => bytes;
  return {
    call: () =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(METHOD, asIs, asIs, message, metadata, (error, answer) => {
          if (error !== null) reject(error);
          else if (answer?.includes(raw) === true) resolve();
          else reject(new Error(`wrong answer: ${JSON.stringify(answer && ModelInferResponse.decode(answer))}`));
        });
      }),
    close: () => client.close(),
  };
}

function report(figures: readonly LegFigures[]): BenchResult {
  const failures = figures.flatMap(({ name, failures: texts }) => texts.map((text) => `${name}: ${text}`));
  if (failures.length > 0) throw new Error(`${failures.length} calls failed, the first: ${failures[0]}`);
  const [direct, bareEnvoy, batcher, mesh] = figures as readonly [LegFigures, LegFigures, LegFigures, LegFigures];
  const ratio = (leg: LegFigures, figure: (leg: LegFigures) => number) =>
    `×${(figure(leg) / figure(direct)).toFixed(2)}`;
  console.log(
    markdownTable([
      ["way", "p50", "p99", "CPU per call", "p50 added", "CPU added"],
      ...figures.map((leg) => [
        leg.name,
        `${leg.p50Ms.toFixed(3)} ms (${ratio(leg, ({ p50Ms }) => p50Ms)})`,
        `${leg.p99Ms.toFixed(3)} ms (${ratio(leg, ({ p99Ms }) => p99Ms)})`,
        `${leg.cpuUsPerCall.toFixed(0)} µs (${ratio(leg, ({ cpuUsPerCall }) => cpuUsPerCall)})`,
        `${(leg.p50Ms - direct.p50Ms).toFixed(3)} ms`,
        `${(leg.cpuUsPerCall - direct.cpuUsPerCall).toFixed(0)} µs`,
      ]),
    ]),
  );
  const calls = figures.reduce((sum, leg) => sum + leg.calls, 0);
  console.log(
    `${calls} calls at ${RATE_PER_SECOND}/s, ${ROUNDS} interleaved rounds, medians over the rounds; load generator late by ` +
      `${Math.max(...figures.map(({ lateP99Ms }) => lateP99Ms)).toFixed(2)} ms at p99`,
  );
  return {
    bench: "overhead",
    bars: [atMost("overhead_p50_ms", mesh.p50Ms - direct.p50Ms, 1)],
    figures: {
      direct_p50_ms: round(direct.p50Ms),
      bare_envoy_added_p50_ms: round(bareEnvoy.p50Ms - direct.p50Ms),
      batcher_added_p50_ms: round(batcher.p50Ms - direct.p50Ms),
      mesh_added_p99_ms: round(mesh.p99Ms - direct.p99Ms),
      mesh_p50_ratio: round(mesh.p50Ms / direct.p50Ms),
      mesh_cpu_ratio: round(mesh.cpuUsPerCall / direct.cpuUsPerCall),
      mesh_added_cpu_us: round(mesh.cpuUsPerCall - direct.cpuUsPerCall),
    },
  };
}
