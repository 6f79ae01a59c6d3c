import type { Record as JournalRecord } from "@servemesh/proto/gen/mesh/servemesh/journal/v1/journal.js";
import { ModelVersion } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { pino } from "pino";
import { describe, expect, it } from "vitest";
import type { PredictionCache } from "./cache/prediction-cache.js";
import { LruPredictionCache } from "./cache/prediction-cache.js";
import { MemoryFeatureStore } from "./features/memory-feature-store.js";
import { Pipeline } from "./pipeline.js";
import { ManualClock } from "./platform/manual-clock.js";
import { createMetrics } from "./platform/metrics.js";
import {
  type Cancellation,
  type ParameterValue,
  PredictError,
  type PredictResult,
  type RequestContext,
  type Tensor,
} from "./request.js";
import { createServing, DEFAULT_SERVING_LIMITS } from "./serving.js";
import { FakeModelServer } from "./triton/testing/fake-model-server.js";
import { UpstreamError } from "./triton/upstream-error.js";

/** features FP32 [-1,4] comes back as scores FP32 [-1,4], so that every row shows whose it is. */
const ECHO = ModelVersion.fromPartial({
  model: "ranker",
  version: 41n,
  artifactDigest: "sha256:41",
  serving: {
    inputs: [
      { name: "features", datatype: "FP32", shape: [-1n, 4n] },
      { name: "hint", datatype: "FP32", shape: [-1n, 1n], optional: true },
    ],
    outputs: [{ name: "scores", datatype: "FP32", shape: [-1n, 4n] }],
    batching: { maxBatchSize: 8, maxQueueDelayUs: 4000, maxQueueSize: 64, maxInFlight: 1 },
  },
});

const RANKER = ModelVersion.fromPartial({
  model: "ranker",
  version: 41n,
  serving: {
    inputs: [{ name: "user_id", datatype: "INT64", shape: [-1n, 1n] }],
    outputs: [{ name: "score", datatype: "FP32", shape: [-1n, 2n] }],
    views: [{ name: "user", entityInput: "user_id", width: 2 }],
    upstreamInputs: [{ name: "features", datatype: "FP32", shape: [-1n, 2n] }],
    transform: "twice",
    batching: { maxBatchSize: 8 },
    cache: { enabled: true },
  },
});

const twice = {
  name: "twice",
  digest: "t1",
  viewWidths: [2],
  outputWidth: 2,
  run: (_rows: number, views: readonly Uint8Array[]) =>
    floats(...readFloats(views[0] ?? Buffer.alloc(0)).map((value) => value * 2)),
};

function floats(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [index, value] of values.entries()) bytes.writeFloatLE(value, index * 4);
  return bytes;
}

function readFloats(bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: bytes.length / 4 }, (_, index) => view.getFloat32(index * 4, true));
}

interface Ask {
  readonly inputs?: readonly Tensor[];
  readonly value?: number;
  readonly rows?: number;
  readonly timeoutMs?: number;
  readonly context?: Partial<RequestContext>;
  readonly parameters?: ReadonlyMap<string, ParameterValue>;
  readonly requestedOutputs?: readonly string[];
  readonly cancellation?: Cancellation;
}

async function setUp(
  record: ModelVersion,
  features?: MemoryFeatureStore,
  cache?: (clock: ManualClock) => PredictionCache,
) {
  const clock = new ManualClock();
  const logger = pino({ level: "silent" });
  const metrics = createMetrics(
    () => ({ waiting: 0, waitingBytes: 0, inFlight: 0, cacheBytes: 0, ready: true }),
    false,
  );
  const server = new FakeModelServer(clock, { features: record === RANKER ? "score" : "scores" });
  const ownCache = cache === undefined ? {} : { createCache: () => cache(clock) };
  const serving = await createServing(record, {
    clock,
    logger,
    metrics,
    createModelServer: () => server,
    features,
    loadTransform: () => twice,
    healthChanged: () => {},
    limits: DEFAULT_SERVING_LIMITS,
    ...ownCache,
  });
  serving.monitor.start();
  await clock.advance(0);
  server.requests.length = 0;
  const records: JournalRecord[] = [];
  const journal = { write: (entry: JournalRecord) => void records.push(entry), close: () => Promise.resolve() };
  const state = { draining: false };
  const pipeline = new Pipeline({
    clock,
    metrics,
    journal,
    maxJournalTensorBytes: 8,
    serving: () => serving,
    draining: () => state.draining,
  });
  let next = 0;
  const predict = (ask: Ask = {}): Promise<PredictResult> => {
    const rows = ask.rows ?? 1;
    const data = floats(...Array.from({ length: rows * 4 }, () => ask.value ?? 1));
    const context: RequestContext = {
      requestId: `r${next++}`,
      tenant: "acme",
      priority: "interactive",
      route: "ranker/prod",
      version: "ranker:41",
      first: ["ranker:41"],
      leg: "primary",
      paired: false,
      attempt: 1,
      arrivedAtMs: clock.nowMs(),
      deadlineAtMs: clock.nowMs() + (ask.timeoutMs ?? 1000),
      ...ask.context,
    };
    const request = {
      id: "",
      inputs: ask.inputs ?? [{ name: "features", datatype: "FP32" as const, shape: [rows, 4], data }],
      requestedOutputs: ask.requestedOutputs ?? [],
      parameters: ask.parameters ?? new Map<string, ParameterValue>(),
      context,
    };
    return pipeline.predict(request, ask.cancellation ?? { cancelled: false, onCancel: undefined });
  };
  /** What became of a call, with the time it took; settles on virtual time. */
  const outcome = (ask: Ask = {}): { readonly now: () => string | undefined } => {
    const startMs = clock.nowMs();
    let text: string | undefined;
    predict(ask).then(
      (result) => {
        text = `ok ${readFloats(result.outputs[0]?.data ?? Buffer.alloc(0))[0]} b${result.batchSize} @${clock.nowMs() - startMs}`;
      },
      (error: unknown) => {
        text =
          error instanceof PredictError
            ? `${error.reason} @${clock.nowMs() - startMs}`
            : `not a PredictError: ${String(error)}`;
      },
    );
    return { now: () => text };
  };
  const counter = async (name: string, labels: Record<string, string> = {}): Promise<number> => {
    const metric = await metrics.registry.getSingleMetric(`servemesh_batcher_${name}`)?.get();
    const match = metric?.values.find((value) =>
      Object.entries(labels).every(([key, text]) => value.labels[key] === text),
    );
    return match?.value ?? 0;
  };
  return { clock, server, serving, pipeline, predict, outcome, records, counter, state };
}

const rowsSent = (server: FakeModelServer): number[] =>
  server.requests.map((request) => request.inputs[0]?.shape[0] ?? 0);

describe("batches", () => {
  it("give every caller exactly its own rows (C041)", async () => {
    const { clock, server, outcome } = await setUp(ECHO);
    const calls = Array.from({ length: 8 }, (_, index) => outcome({ value: index }));
    await clock.advance(0);
    expect(calls.map((call) => call.now())).toEqual(Array.from({ length: 8 }, (_, index) => `ok ${index} b8 @0`));
    expect(rowsSent(server)).toEqual([8]);
  });

  it("rely on row order, which is part of the contract with the model (C043)", async () => {
    const { clock, predict } = await setUp(ECHO);
    const answers = Promise.all([predict({ value: 1, rows: 2 }), predict({ value: 2, rows: 3 })]);
    await clock.advance(4);
    expect((await answers).map(({ outputs }) => readFloats(outputs[0]?.data ?? Buffer.alloc(0)))).toEqual([
      Array(8).fill(1),
      Array(12).fill(2),
    ]);
  });

  it("fail as a whole when the answer has another number of rows (C041, C044)", async () => {
    for (const rows of [1, 4]) {
      const { clock, server, predict } = await setUp(ECHO);
      server.behaviour = () => ({
        outputs: [{ name: "scores", datatype: "FP32", shape: [rows, 4], data: Buffer.alloc(rows * 16) }],
        parameters: new Map(),
      });
      const calls = Promise.allSettled(Array.from({ length: 5 }, () => predict()));
      await clock.advance(4);
      const errors = (await calls).map((call) =>
        call.status === "rejected" ? (call.reason as PredictError) : undefined,
      );
      expect(errors.map((error) => error?.reason)).toEqual(Array(5).fill("internal"));
      expect(errors[0]?.message).toContain(`expected 5 rows, got ${rows}`);
    }
  });

  it("are tried again singly when the server refuses a mixed one (C046)", async () => {
    const { clock, server, outcome } = await setUp(ECHO);
    server.behaviour = (request) => {
      const bad = request.inputs[0]?.parts.some((part) => readFloats(part)[0] === 13);
      if (bad) throw new UpstreamError("rejected", "13 is not allowed");
      return server.echoInputs(request);
    };
    const calls = [1, 2, 13, 4].map((value) => outcome({ value }));
    await clock.advance(4);
    expect(calls.map((call) => call.now())).toEqual(["ok 1 b1 @4", "ok 2 b1 @4", "bad_input @4", "ok 4 b1 @4"]);
    expect(rowsSent(server)).toEqual([4, 1, 1, 1, 1]);
  });

  it("retry singly only within each member's deadline", async () => {
    const { clock, server, outcome } = await setUp(ECHO);
    server.serviceMs = 10;
    server.behaviour = (request) => {
      if ((request.inputs[0]?.shape[0] ?? 0) > 1) throw new UpstreamError("rejected", "no");
      return server.echoInputs(request);
    };
    const calls = [
      outcome({ value: 1, timeoutMs: 100 }),
      outcome({ value: 2, timeoutMs: 20 }),
      outcome({ value: 3, timeoutMs: 100 }),
    ];
    await clock.advance(100);
    expect(calls.map((call) => call.now())).toEqual(["ok 1 b1 @24", "deadline @20", "ok 3 b1 @34"]);
    expect(rowsSent(server)).toEqual([3, 1, 1]);
  });

  it("keep requests with other parameters, optional inputs, outputs or legs apart (C064, C065)", async () => {
    const { clock, server, predict } = await setUp(ECHO);
    const hint: Tensor = { name: "hint", datatype: "FP32", shape: [1, 1], data: floats(7) };
    const features: Tensor = { name: "features", datatype: "FP32", shape: [1, 4], data: floats(1, 1, 1, 1) };
    const calls = [
      predict({ parameters: new Map([["temperature", 0.1]]) }),
      predict({ parameters: new Map([["temperature", 0.9]]) }),
      predict({ inputs: [features, hint] }),
      predict({ inputs: [features] }),
      predict({ inputs: [hint, features] }),
      predict({ context: { leg: "shadow" } }),
    ];
    await clock.advance(10);
    await Promise.all(calls);
    expect(rowsSent(server)).toEqual([1, 1, 2, 1, 1]);
    expect(server.requests.map((request) => request.inputs.length)).toEqual([1, 1, 2, 1, 1]);
    expect(server.requests.map((request) => [...request.parameters.values()])).toEqual([[0.1], [0.9], [], [], []]);
  });

  it("pass the answer's parameters on, also when batching is on (C062)", async () => {
    const { clock, server, predict } = await setUp(ECHO);
    const parameters = new Map<string, ParameterValue>([
      ["tag", "x-98"],
      ["n", 7n],
    ]);
    server.behaviour = (request) => ({ ...server.echoInputs(request), parameters });
    const call = predict();
    await clock.advance(4);
    expect((await call).parameters).toEqual(parameters);
  });

  it("refuse rows that do not fit, each with its own error, and go on (C047)", async () => {
    const { clock, outcome, predict } = await setUp(ECHO);
    await expect(predict({ rows: 9 })).rejects.toThrow(/9 rows/);
    await expect(predict({ rows: 0 })).rejects.toThrow(/no rows/);
    await expect(predict({ inputs: [null as unknown as Tensor] })).rejects.toMatchObject({ name: "PredictError" });
    const good = outcome({ value: 5 });
    await clock.advance(4);
    expect(good.now()).toBe("ok 5 b1 @4");
  });
});

describe("deadlines and cancellation", () => {
  it("takes an expired request out of the queue, answered and never sent (C050)", async () => {
    const { clock, server, serving, outcome } = await setUp(ECHO);
    server.serviceMs = 500;
    const first = outcome({ timeoutMs: 1000 });
    await clock.advance(4);
    const second = outcome({ timeoutMs: 50 });
    await clock.advance(49);
    expect(serving.queue.load().waiting).toBe(1);
    await clock.advance(1);
    expect(second.now()).toBe("deadline @50");
    expect(serving.queue.load().waiting).toBe(0);
    await clock.advance(1000);
    expect(first.now()).toBe("ok 1 b1 @504");
    expect(server.requests).toHaveLength(1);
  });

  it("dispatches nothing without time left (C071)", async () => {
    const { clock, server, outcome } = await setUp(ECHO);
    const calls = [outcome({ timeoutMs: 0 }), outcome({ timeoutMs: -5 }), outcome({ timeoutMs: 1 })];
    await clock.advance(10);
    // The last one leaves as soon as its time is tight: nothing is known yet of how long a batch takes.
    expect(calls.map((call) => call.now())).toEqual(["deadline @0", "deadline @0", "deadline @1"]);
    expect(server.requests).toHaveLength(0);
  });

  it("answers at the deadline though the model runs on, and discards the late reply (C068)", async () => {
    const { clock, server, outcome, counter } = await setUp(ECHO);
    server.serviceMs = 100;
    const calls = [outcome({ timeoutMs: 50 }), ...Array.from({ length: 7 }, () => outcome({ timeoutMs: 900 }))];
    await clock.advance(100);
    expect(calls.map((call) => call.now())).toEqual(["deadline @50", ...Array(7).fill("ok 1 b8 @100")]);
    expect(await counter("late_replies_total")).toBe(1);
  });

  it("keeps the slot of an abandoned batch until the model server has answered", async () => {
    const { clock, server, outcome } = await setUp(ECHO);
    server.serviceMs = 200;
    outcome({ timeoutMs: 50 });
    await clock.advance(60);
    const next = outcome({ timeoutMs: 1000 });
    await clock.advance(140);
    expect(server.requests).toHaveLength(1);
    await clock.advance(300);
    expect([server.requests.length, next.now()]).toEqual([2, "ok 1 b1 @344"]);
  });

  it("never sends a batch whose callers have all gone (C055), and drops single ones (C049)", async () => {
    const { clock, server, outcome, serving } = await setUp(ECHO);
    server.serviceMs = 20;
    outcome();
    await clock.advance(4);
    const gone = Array.from({ length: 8 }, () => ({
      cancelled: false,
      onCancel: undefined as (() => void) | undefined,
    }));
    const calls = gone.map((cancellation) => outcome({ cancellation }));
    await clock.advance(1);
    for (const cancellation of gone) cancellation.onCancel?.();
    await clock.advance(100);
    expect(rowsSent(server)).toEqual([1]);
    expect(serving.queue.load()).toMatchObject({ waiting: 0, inFlight: 0 });
    expect(calls.map((call) => call.now())).toEqual(Array(8).fill("deadline @1"));
  });

  it("ends every call exactly once when deadline and answer race (C056)", async () => {
    const { clock, server, outcome, pipeline, counter } = await setUp(ECHO);
    const calls: { readonly now: () => string | undefined }[] = [];
    for (let index = 0; index < 500; index += 1) {
      server.serviceMs = 18 + (index % 3);
      calls.push(outcome({ timeoutMs: 20 + (index % 5) }));
      await clock.advance(1);
    }
    await clock.advance(1000);
    const reasons = calls.map((call) => call.now()?.split(" ")[0]);
    expect(new Set(reasons)).toEqual(new Set(["ok", "deadline"]));
    const ok = await counter("requests_total", { outcome: "ok" });
    expect(ok + (await counter("requests_total", { outcome: "deadline" }))).toBe(500);
    expect(pipeline.size).toBe(0);
  });

  it("stays bounded when callers with short deadlines retry against a slow model (C059)", async () => {
    const { clock, server, outcome, serving, pipeline } = await setUp(ECHO);
    server.serviceMs = 1000;
    for (let round = 0; round < 50; round += 1) {
      for (let index = 0; index < 50; index += 1) outcome({ timeoutMs: 100 });
      await clock.advance(100);
      expect(serving.queue.load().waiting).toBeLessThanOrEqual(64);
    }
    await clock.advance(2000);
    expect(pipeline.size).toBe(0);
    expect(server.requests.length).toBeLessThanOrEqual(6);
  });
});

describe("failures of the model server", () => {
  it.each([
    ["unreachable", "unavailable"],
    ["stub_dead", "unavailable"],
    ["failed", "internal"],
    ["busy", "overloaded"],
    ["rejected", "bad_input"],
  ] as const)("%s is told as %s", async (kind, reason) => {
    const { clock, server, outcome } = await setUp(ECHO);
    server.behaviour = () => {
      throw new UpstreamError(kind, "why");
    };
    const call = outcome();
    await clock.advance(4);
    expect(call.now()).toBe(`${reason} @4`);
  });

  it("repairs a dead python process and refuses meanwhile", async () => {
    const { clock, server, serving, outcome } = await setUp(ECHO);
    let dead = true;
    server.behaviour = (request) => {
      if (server.loads > 0) dead = false;
      if (dead) throw new UpstreamError("stub_dead", "Stub process 'ranker_0' is not healthy.");
      return server.echoInputs(request);
    };
    const first = outcome();
    await clock.advance(5);
    expect(first.now()).toBe("unavailable @4");
    await clock.advance(10_000);
    expect([server.loads, serving.monitor.serving]).toEqual([1, true]);
    const second = outcome();
    await clock.advance(4);
    expect(second.now()).toBe("ok 1 b1 @4");
  });

  it("fails fast while the server is away, and recovers by itself (C067)", async () => {
    const { clock, server, serving, outcome } = await setUp(ECHO);
    const working = server.behaviour;
    server.isReady = false;
    server.behaviour = () => {
      throw new UpstreamError("unreachable", "connection refused");
    };
    const first = outcome();
    await clock.advance(10);
    expect([first.now(), serving.monitor.serving]).toEqual(["unavailable @4", false]);
    const meanwhile = outcome();
    await clock.advance(0);
    expect(meanwhile.now()).toBe("unavailable @0");
    server.isReady = true;
    server.behaviour = working;
    await clock.advance(250);
    const after = outcome();
    await clock.advance(4);
    expect(after.now()).toBe("ok 1 b1 @4");
  });

  it("refuses as draining, and finishes what is inside", async () => {
    const { clock, state, outcome, pipeline } = await setUp(ECHO);
    const inside = outcome();
    state.draining = true;
    const late = outcome();
    const idle = pipeline.whenIdle();
    await clock.advance(4);
    await idle;
    expect([inside.now(), late.now()]).toEqual(["ok 1 b1 @4", "draining @0"]);
  });
});

describe("features and cache", () => {
  const user = (id: bigint): Tensor[] => {
    const data = Buffer.alloc(8);
    data.writeBigInt64LE(id);
    return [{ name: "user_id", datatype: "INT64", shape: [1, 1], data }];
  };
  const store = (): MemoryFeatureStore =>
    new MemoryFeatureStore().put("user", 1n, [1, 2]).put("user", 2n ** 53n + 1n, [5, 6]);

  it("looks into the cache while the features are fetched (DESIGN §1)", async () => {
    const clocks: ManualClock[] = [];
    const features = new MemoryFeatureStore(() => clocks[0]?.sleep(6) ?? Promise.resolve()).put("user", 1n, [1, 2]);
    const slow = (clock: ManualClock): PredictionCache => {
      clocks.push(clock);
      const inner = new LruPredictionCache(1e6);
      return {
        get: (key) => clock.sleep(5).then(() => inner.get(key)),
        put: (key, answer) => inner.put(key, answer),
        get bytes() {
          return inner.bytes;
        },
      };
    };
    const { clock, predict } = await setUp(RANKER, features, slow);
    const startMs = clock.nowMs();
    const miss = predict({ inputs: user(1n) });
    await clock.advance(6);
    expect(clock.nowMs() - startMs).toBe(6);
    const answer = await miss;
    expect(answer.timings).toMatchObject({ cache: 5, features: 6 });
    expect([answer.cacheHit, readFloats(answer.outputs[0]?.data ?? Buffer.alloc(0))]).toEqual([false, [2, 4]]);
    const hit = predict({ inputs: user(1n) });
    await clock.advance(6);
    expect(await hit).toMatchObject({ cacheHit: true, batchSize: 0 });
  });

  it("keeps ids beyond 2^53 exact, and serves zeros for an unknown entity, counted", async () => {
    const { clock, predict, counter } = await setUp(RANKER, store());
    const calls = [predict({ inputs: user(2n ** 53n + 1n) }), predict({ inputs: user(2n ** 53n) })];
    await clock.advance(0);
    const scores = (await Promise.all(calls)).map(({ outputs }) => readFloats(outputs[0]?.data ?? Buffer.alloc(0)));
    expect(scores).toEqual([
      [10, 12],
      [0, 0],
    ]);
    expect(await counter("features_missing_total", { view: "user" })).toBe(1);
  });

  it("never answers from other feature values (C236)", async () => {
    const features = store();
    const { clock, predict, counter } = await setUp(RANKER, features);
    const ask = async (): Promise<[boolean, number[]]> => {
      const call = predict({ inputs: user(1n) });
      await clock.advance(0);
      const { cacheHit, outputs } = await call;
      return [cacheHit, readFloats(outputs[0]?.data ?? Buffer.alloc(0))];
    };
    expect(await ask()).toEqual([false, [2, 4]]);
    expect(await ask()).toEqual([true, [2, 4]]);
    features.put("user", 1n, [3, 4]);
    expect(await ask()).toEqual([false, [6, 8]]);
    expect(await ask()).toEqual([true, [6, 8]]);
    expect(await counter("cache_lookups_total", { result: "stale_features" })).toBe(1);
  });

  it("never shares answers between tenants, and leaves the shadow leg out (C226, C227)", async () => {
    const { clock, predict, server } = await setUp(RANKER, store());
    const ask = async (context: Partial<RequestContext>): Promise<boolean> => {
      const call = predict({ inputs: user(1n), context });
      await clock.advance(0);
      return (await call).cacheHit;
    };
    expect(await ask({ leg: "shadow" })).toBe(false);
    expect(await ask({})).toBe(false);
    expect(await ask({ leg: "shadow" })).toBe(false);
    expect(await ask({ tenant: "beta" })).toBe(false);
    expect(await ask({})).toBe(true);
    expect(server.requests).toHaveLength(4);
  });

  it("stores nothing but complete successes (C232)", async () => {
    const { clock, predict, server } = await setUp(RANKER, store());
    const working = server.behaviour;
    const failures: (() => never)[] = [
      () => {
        throw new UpstreamError("unreachable", "503");
      },
      () => {
        throw new UpstreamError("busy", "429");
      },
    ];
    for (const failure of failures) {
      server.behaviour = failure;
      const call = predict({ inputs: user(1n) });
      const failed = expect(call).rejects.toBeInstanceOf(PredictError);
      await clock.settle();
      await failed;
      server.behaviour = working;
      await clock.advance(250);
    }
    server.behaviour = () => ({ outputs: [], parameters: new Map() });
    const empty = expect(predict({ inputs: user(1n) })).rejects.toThrow(/missing/);
    await clock.advance(0);
    await empty;
    server.behaviour = working;
    const good = predict({ inputs: user(1n) });
    await clock.advance(0);
    expect((await good).cacheHit).toBe(false);
  });
});

describe("journal", () => {
  it("gets both legs of a mirrored request and nothing else, with cut tensors", async () => {
    const { clock, predict, records } = await setUp(ECHO);
    const calls = [
      predict({ context: { requestId: "plain" } }),
      predict({ context: { requestId: "pair", paired: true } }),
      predict({ context: { requestId: "pair", leg: "shadow" } }),
    ];
    await clock.advance(8);
    await Promise.all(calls);
    expect(records.map(({ requestId, leg, reason, batchSize }) => [requestId, leg, reason, batchSize])).toEqual([
      ["pair", "primary", "", 2],
      ["pair", "shadow", "", 1],
    ]);
    const [tensor] = records[0]?.outputs ?? [];
    expect([tensor?.data.length, tensor?.truncatedBytes]).toEqual([8, 8]);
    expect(Object.keys(records[0]?.stageUs ?? {}).sort()).toEqual(["demux", "infer", "queue"]);
  });

  it("records refusals with their reason", async () => {
    const { clock, outcome, records } = await setUp(ECHO);
    outcome({ timeoutMs: 2, context: { paired: true } });
    await clock.advance(5);
    expect(records.map(({ reason }) => reason)).toEqual(["deadline"]);
  });
});
