import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { atMost, type BenchResult, markdownTable, round } from "./report.js";
import { medianOf } from "./statistics.js";
import { SizedMesh } from "./xds-cost-mesh.js";
import { DeltaClient, type Received } from "./xds-delta-client.js";

const SIZES = [10, 100, 1_000, 5_000] as const;
/** Changes that are only published. Many times 64, because some copies are made once in 64 changes. */
const PUBLISH_ROUNDS = 2_000;
/** Changes that a stream waits for. */
const DELIVER_ROUNDS = 120;
/** Rounds before that, which do not count. */
const WARM_UP_SHARE = 0.25;

/** A mesh with one stream that holds all of it, and a second one of the same size to which nobody listens. */
interface Subject {
  readonly quiet: SizedMesh;
  readonly mesh: SizedMesh;
  readonly server: Server;
  readonly client: DeltaClient;
  readonly memoryBytesPerModel: number;
  readonly fullSyncMs: number;
  readonly fullSyncBytes: number;
  readonly samples: Record<Measurement, number[]>;
}

/** Times in ms of one change: until it is published when nobody listens, and until one stream has it. */
type Measurement = "publish" | "publishEndpoint" | "deliver" | "bytes" | "endpointBytes";

/**
 * What one change costs in meshes of 10 to 5,000 models (two versions, one alias, two replicas per version): from the text
 * of the record to the snapshot, and until a delta stream that holds everything has it. The sizes take turns, so that a
 * noisy moment hits all of them.
 */
export async function xdsCost(): Promise<BenchResult> {
  const collect = exposeGarbageCollector();
  const subjects: Subject[] = [];
  try {
    for (const models of SIZES) subjects.push(await startSubject(models, collect));
    await inTurns(PUBLISH_ROUNDS, subjects, ({ quiet }, turn, samples) => measurePublishing(quiet, turn, samples));
    await inTurns(DELIVER_ROUNDS, subjects, measureDelivery);
    return report(subjects);
  } finally {
    for (const { client, mesh, server } of subjects) {
      client.close();
      mesh.pipeline.server.close();
      server.forceShutdown();
    }
  }
}

type Measure = (subject: Subject, turn: number, samples: Subject["samples"]) => void | Promise<void>;

/** Each round starts with another size, so that none always follows the same neighbour. */
async function inTurns(rounds: number, subjects: readonly Subject[], measure: Measure): Promise<void> {
  const warmUp = Math.ceil(rounds * WARM_UP_SHARE);
  for (let turn = 0; turn < warmUp + rounds; turn++) {
    for (let place = 0; place < subjects.length; place++) {
      const subject = subjects[(turn + place) % subjects.length] as Subject;
      await measure(subject, turn, turn < warmUp ? newSamples() : subject.samples);
    }
  }
}

async function startSubject(models: number, collect: () => number): Promise<Subject> {
  const before = collect();
  const mesh = new SizedMesh(models);
  const memoryBytesPerModel = (collect() - before) / models;
  const server = new Server({ "grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1 });
  mesh.pipeline.server.addTo(server);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  const beganMs = performance.now();
  const client = new DeltaClient(`127.0.0.1:${port}`, `bench-${models}`);
  const wanted = Object.values(mesh.pipeline.server.snapshot?.byType ?? {}).reduce((sum, { size }) => sum + size, 0);
  const received = await client.until(() => client.held === wanted);
  const fullSyncMs = performance.now() - beganMs;
  process.stderr.write(`${models} models: ${wanted} resources\n`);
  return {
    quiet: new SizedMesh(models),
    mesh,
    server,
    client,
    memoryBytesPerModel,
    fullSyncMs,
    fullSyncBytes: bytesOf(received),
    samples: newSamples(),
  };
}

function measurePublishing(mesh: SizedMesh, turn: number, samples: Subject["samples"]): void {
  samples.publish.push(timeOf(() => mesh.setWeight(percentOf(turn))));
  samples.publishEndpoint.push(timeOf(() => mesh.setReady(turn % 2 === 1)));
}

async function measureDelivery({ mesh, client }: Subject, turn: number, samples: Subject["samples"]): Promise<void> {
  const weight = client.until(() => true);
  const beganMs = performance.now();
  mesh.setWeight(percentOf(turn));
  const received = await weight;
  samples.deliver.push(performance.now() - beganMs);
  samples.bytes.push(bytesOf(received));
  const endpoint = client.until(() => true);
  mesh.setReady(turn % 2 === 1);
  samples.endpointBytes.push(bytesOf(await endpoint));
  // The acceptance is on its way; it belongs to this change, not to the next.
  const { settled } = await mesh.pipeline.server.whenSettled(10_000);
  if (!settled) throw new Error(`the stream of ${mesh.models} models did not settle`);
}

/** Never the one before. */
function percentOf(turn: number): number {
  return 10 + (turn % 80);
}

function report(subjects: readonly Subject[]): BenchResult {
  const over = (subject: Subject, measurement: Measurement) => medianOf(subject.samples[measurement]);
  const meanOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  console.log(
    markdownTable([
      [
        "models",
        "weight change, published",
        "mean",
        "endpoint change, published",
        "weight change, received",
        "bytes",
        "bytes, endpoint change",
        "full sync",
        "full sync, MiB",
        "memory per model",
      ],
      ...subjects.map((subject) => [
        String(subject.mesh.models),
        `${round(over(subject, "publish"))} ms`,
        `${round(meanOf(subject.samples.publish))} ms`,
        `${round(over(subject, "publishEndpoint"))} ms`,
        `${round(over(subject, "deliver"))} ms`,
        String(over(subject, "bytes")),
        String(over(subject, "endpointBytes")),
        `${Math.round(subject.fullSyncMs)} ms`,
        (subject.fullSyncBytes / 2 ** 20).toFixed(2),
        `${(subject.memoryBytesPerModel / 1024).toFixed(1)} KiB`,
      ]),
    ]),
  );
  const small = subjects[0] as Subject;
  const large = subjects.at(-1) as Subject;
  const ratio = (measurement: Measurement) => over(large, measurement) / over(small, measurement);
  return {
    bench: "xds-cost",
    bars: [atMost("weight_change_5000_vs_10_models", Math.max(ratio("deliver"), ratio("bytes")), 1.5)],
    figures: {
      publish_ratio: round(ratio("publish")),
      publish_endpoint_ratio: round(ratio("publishEndpoint")),
      deliver_ratio: round(ratio("deliver")),
      bytes_ratio: round(ratio("bytes")),
      endpoint_bytes_ratio: round(ratio("endpointBytes")),
      publish_mean_ratio: round(meanOf(large.samples.publish) / meanOf(small.samples.publish)),
      full_sync_ms_per_1000_models: round((large.fullSyncMs / large.mesh.models) * 1000),
    },
  };
}

function newSamples(): Record<Measurement, number[]> {
  return { publish: [], publishEndpoint: [], deliver: [], bytes: [], endpointBytes: [] };
}

function bytesOf(received: readonly Received[]): number {
  return received.reduce((sum, { bytes }) => sum + bytes, 0);
}

function timeOf(run: () => void): number {
  const beganMs = performance.now();
  run();
  return performance.now() - beganMs;
}

/** Collects garbage and says how many bytes are in use, buffers included. */
function exposeGarbageCollector(): () => number {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  return () => {
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
}
