import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { findBasePort, type LocalMesh, type MeshContents, repositoryRoot, startLocalMesh } from "@servemesh/envoy";
import { ModelInferRequest } from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import { H_API_KEY, H_SERVED_BY } from "@servemesh/proto/names";
import { runOpenLoop } from "./open-loop.js";
import { atMost, type BenchResult, markdownTable, round } from "./report.js";
import { quantileOf } from "./statistics.js";

const CHANGES = 200;
/** From one change to the next; not a multiple of the load's interval, so that changes meet it at every phase. */
const SPACING_MS = 151;
const RATE_PER_SECOND = 200;
const WARM_UP_MS = 5_000;
/** How long the load goes on after the last change. */
const TAIL_MS = 2_000;
const METHOD = "/inference.GRPCInferenceService/ModelInfer";

const ECHO_SERVING = { maxQueueDelayUs: 0, maxBatchSize: 8, cacheEnabled: false };
const CONTENTS: MeshContents = {
  models: [{ name: "echo", deadlineMs: 2_000 }],
  versions: [
    { reference: "echo:1", stage: "production", serving: ECHO_SERVING },
    { reference: "echo:2", stage: "production", serving: ECHO_SERVING },
  ],
  aliases: [{ model: "echo", alias: "prod", split: [{ version: 1n, weight: 1 }] }],
  replicas: ["echo:1", "echo:2"],
};

/**
 * How long a promotion takes: from the call that moves all of an alias to the other version, until a real answer says that
 * this version served it, and until no call is sent to the old one any more. Under load, all parts real, all settings at their
 * defaults. The model gives its input back, so an answer's own time is the mesh's.
 */
export async function apply(): Promise<BenchResult> {
  const basePort = await findBasePort(CONTENTS.replicas.length, 20_000, 32_000);
  const folder = join(repositoryRoot, "var/bench/apply");
  const mesh = await startLocalMesh({ folder, basePort, contents: CONTENTS });
  try {
    return await measure(mesh);
  } finally {
    await mesh.stop();
  }
}

/** One answered call. */
interface Answer {
  readonly sentMs: number;
  readonly endedMs: number;
  readonly servedBy: string;
}

async function measure(mesh: LocalMesh): Promise<BenchResult> {
  const answers: Answer[] = [];
  const caller = createCaller(mesh.grpcAddress, mesh.apiKey, answers);
  const durationMs = WARM_UP_MS + CHANGES * SPACING_MS + TAIL_MS;
  const load = runOpenLoop(caller.call, { ratePerSecond: RATE_PER_SECOND, durationMs });
  const changes: Change[] = [];
  await sleep(WARM_UP_MS);
  for (let turn = 0; turn < CHANGES; turn++) {
    const to = turn % 2 === 0 ? 2 : 1;
    const writtenMs = performance.now();
    await mesh.admin.setAlias({
      alias: { model: "echo", alias: "prod", split: [{ version: BigInt(to), weight: 1 }] },
      expectedRevision: -1n,
    });
    changes.push({ writtenMs, confirmedMs: performance.now(), to: `echo:${to}` });
    await sleep(Math.max(0, writtenMs + SPACING_MS - performance.now()));
    if (turn % 50 === 49) process.stderr.write(`${turn + 1} of ${CHANGES} changes\n`);
  }
  const { failures, lateMs } = await load;
  caller.close();
  if (failures.length > 0) throw new Error(`${failures.length} calls failed, the first: ${failures[0]}`);
  return report(changes, answers, quantileOf(lateMs, 0.99));
}

interface Change {
  readonly writtenMs: number;
  /** When the admin API said that it is in the registry. */
  readonly confirmedMs: number;
  readonly to: string;
}

function createCaller(address: string, apiKey: string, answers: Answer[]): { call(): Promise<void>; close(): void } {
  const client = new Client(address, credentials.createInsecure());
  const metadata = new Metadata();
  metadata.set(H_API_KEY, apiKey);
  const message = Buffer.from(
    ModelInferRequest.encode(
      ModelInferRequest.fromPartial({
        modelName: "echo",
        inputs: [{ name: "input", datatype: "FP32", shape: [1n, 16n] }],
        rawInputContents: [Buffer.alloc(64, 1)],
      }),
    ).finish(),
  );
  const asIs = (bytes: Buffer): Buffer => bytes;
  return {
    call: () =>
      new Promise((resolve, reject) => {
        const sentMs = performance.now();
        let servedBy = "";
        const call = client.makeUnaryRequest(METHOD, asIs, asIs, message, metadata, (error) => {
          if (error !== null) reject(error);
          else if (servedBy === "") reject(new Error(`an answer without ${H_SERVED_BY}`));
          else {
            answers.push({ sentMs, endedMs: performance.now(), servedBy });
            resolve();
          }
        });
        call.on("metadata", (headers) => {
          servedBy = String(headers.get(H_SERVED_BY)[0] ?? "");
        });
      }),
    close: () => client.close(),
  };
}

/** What the calls between two changes say of the first; every call counts for one change. */
function seenAfter(
  change: Change,
  nextMs: number,
  answers: readonly Answer[],
): { firstMs: number; oldUntilMs: number } {
  const within = answers.filter(({ endedMs }) => endedMs > change.writtenMs && endedMs <= nextMs);
  const first = Math.min(...within.filter(({ servedBy }) => servedBy === change.to).map(({ endedMs }) => endedMs));
  if (first === Number.POSITIVE_INFINITY) throw new Error(`no answer came from ${change.to} before the next change`);
  const old = within.filter(({ sentMs, servedBy }) => sentMs > change.writtenMs && servedBy !== change.to);
  const lastOld = Math.max(change.writtenMs, ...old.map(({ sentMs }) => sentMs));
  return { firstMs: first - change.writtenMs, oldUntilMs: lastOld - change.writtenMs };
}

function report(changes: readonly Change[], answers: readonly Answer[], lateP99Ms: number): BenchResult {
  const seen = changes.map((change, index) =>
    seenAfter(change, changes[index + 1]?.writtenMs ?? change.writtenMs + SPACING_MS, answers),
  );
  const firstMs = seen.map((each) => each.firstMs);
  const oldUntilMs = seen.map((each) => each.oldUntilMs);
  const confirmedMs = changes.map((change) => change.confirmedMs - change.writtenMs);
  const callMs = answers.map(({ sentMs, endedMs }) => endedMs - sentMs);
  const row = (name: string, samples: readonly number[]): string[] => [
    name,
    ...[0.5, 0.9, 0.99, 1].map((quantile) => `${quantileOf(samples, quantile).toFixed(1)} ms`),
  ];
  console.log(
    markdownTable([
      ["from the write on", "p50", "p90", "p99", "max"],
      row("confirmed by the registry", confirmedMs),
      row("first answer served by the new version has come", firstMs),
      row("last call that the old version served was sent", oldUntilMs),
      row("(a call, for comparison)", callMs),
    ]),
  );
  console.log(
    `${changes.length} changes, ${answers.length} calls at ${RATE_PER_SECOND}/s, 0 failed; load generator late by ${lateP99Ms.toFixed(2)} ms at p99`,
  );
  const p50Ms = quantileOf(firstMs, 0.5);
  return {
    bench: "apply",
    bars: [atMost("apply_p50_ms", p50Ms, 20), atMost("apply_p99_ms", quantileOf(firstMs, 0.99), 100)],
    figures: {
      apply_max_ms: round(Math.max(...firstMs)),
      old_until_p50_ms: round(quantileOf(oldUntilMs, 0.5)),
      old_until_p99_ms: round(quantileOf(oldUntilMs, 0.99)),
      apply_p50_per_call_p50: round(p50Ms / quantileOf(callMs, 0.5)),
    },
  };
}
