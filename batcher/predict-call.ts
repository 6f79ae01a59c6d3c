import { type MemberAnswer, requestRows } from "./batch/batch-runner.js";
import type { CachedAnswer } from "./cache/prediction-cache.js";
import { featureDigest, predictionKey } from "./cache/prediction-key.js";
import { rowsOf } from "./element-bytes.js";
import { type FeatureRows, FeatureStoreError } from "./features/feature-store.js";
import type { Clock } from "./platform/clock.js";
import type { Waiting } from "./queue/batch-queue.js";
import type { DeadlineEntry, DeadlineWatch } from "./queue/deadline-watch.js";
import { laneKey } from "./queue/lane-key.js";
import type { QueuedCall } from "./queued-call.js";
import {
  type Cancellation,
  type ParameterValue,
  PredictError,
  type PredictRequest,
  type PredictResult,
  type StageTimings,
  type Tensor,
} from "./request.js";
import type { Serving } from "./serving.js";
import { featureLookups, upstreamTensors } from "./transform/transform-stage.js";

/** How a call ended, for the journal and the metrics. */
export interface CallEnd {
  /** `ok`, `cancelled` or a refusal's reason. */
  readonly outcome: string;
  readonly outputs: readonly Tensor[];
  readonly cacheHit: boolean;
  readonly batchSize: number;
}

export interface CallDeps {
  readonly clock: Clock;
  readonly deadlines: DeadlineWatch;
  readonly serving: Serving;
  readonly cacheLookup: (result: "hit" | "miss" | "stale_features") => void;
  readonly featuresMissing: (view: string, rows: number) => void;
  /** Called exactly once, before the caller's promise settles. */
  readonly ended: (call: PredictCall, end: CallEnd) => void;
}

/** The doors' own deadline timer may be this much early; their leaving is a deadline all the same. */
const DOOR_EARLY_MS = 1;
const NO_TENSORS: readonly Tensor[] = [];

/**
 * One request on its way: cache and features at the same time, then transform, queue, batch. It ends exactly once: with
 * an answer, a refusal, its deadline, or the caller's leaving, whichever comes first; everything later is ignored.
 */
export class PredictCall implements QueuedCall {
  live = true;
  /** What the model server gets; empty until the transform has run. */
  tensors: readonly Tensor[] = NO_TENSORS;
  rows = 0;
  bytes = 0;
  laneKey = "";
  readonly timings: StageTimings = {};
  private readonly deadline: DeadlineEntry;
  private waiting: Waiting<QueuedCall> | undefined;
  private cacheKey: string | undefined;
  private featureDigest = "";
  private enqueuedAtMs = 0;
  private batchRows = 0;

  constructor(
    readonly request: PredictRequest,
    private readonly cancellation: Cancellation,
    private readonly deps: CallDeps,
    private readonly resolve: (result: PredictResult) => void,
    private readonly reject: (error: PredictError) => void,
  ) {
    this.deadline = deps.deadlines.add(request.context.deadlineAtMs, () => this.expire());
    cancellation.onCancel = () => this.leave();
  }

  get leg(): "primary" | "shadow" {
    return this.request.context.leg;
  }

  get requestedOutputs(): readonly string[] {
    return this.request.requestedOutputs;
  }

  get parameters(): ReadonlyMap<string, ParameterValue> {
    return this.request.parameters;
  }

  get deadlineAtMs(): number {
    return this.request.context.deadlineAtMs;
  }

  /** Runs the stages up to the queue; every failure becomes this call's own refusal. */
  async start(): Promise<void> {
    try {
      if (this.cancellation.cancelled) return this.leave();
      if (this.deadlineAtMs <= this.deps.clock.nowMs()) return this.expire();
      this.rows = requestRows(this.request.inputs);
      checkRows(this.request.inputs, this.rows);
      const views = await this.lookUp();
      if (!this.live || views === undefined) return;
      this.transform(views);
      this.enqueue();
    } catch (error) {
      this.fail(refusal(error));
    }
  }

  sent(batchRows: number): void {
    this.batchRows = batchRows;
    this.timings.queue ??= this.deps.clock.nowMs() - this.enqueuedAtMs;
  }

  succeed(answer: MemberAnswer): void {
    this.timings.infer = answer.inferMs;
    this.timings.demux = answer.demuxMs;
    if (this.cacheKey !== undefined) {
      const { outputs, parameters } = answer;
      this.deps.serving.cache?.put(this.cacheKey, { outputs, parameters, featureDigest: this.featureDigest });
    }
    this.answer(answer, false, answer.batchRows);
  }

  fail(error: PredictError): void {
    this.end(error.reason, error);
  }

  /**
   * Cache and features at the same time.
   * @returns the fetched rows per view, or undefined when the cache has answered
   */
  private lookUp(): readonly Uint8Array[] | undefined | Promise<readonly Uint8Array[] | undefined> {
    const { plan, cache, features } = this.deps.serving;
    const startMs = this.deps.clock.nowMs();
    const lookups = featureLookups(plan, this.request.inputs);
    const fetching = lookups.length === 0 ? undefined : features?.fetch(lookups);
    if (cache === undefined || this.leg === "shadow") {
      if (fetching === undefined) return [];
      return this.timed("features", startMs, fetching).then((rows) => this.useFeatures(rows));
    }
    const lookStartMs = this.deps.clock.nowMs();
    this.cacheKey = predictionKey({
      tenant: this.request.context.tenant,
      servingDigest: plan.digest,
      inputs: this.request.inputs,
      requestedOutputs: this.requestedOutputs,
      parameters: this.parameters,
    });
    const looking = cache.get(this.cacheKey);
    if (fetching === undefined && !(looking instanceof Promise)) {
      this.timings.cache = this.deps.clock.nowMs() - lookStartMs;
      return this.judge([], looking);
    }
    const rows = fetching === undefined ? Promise.resolve([]) : this.timed("features", startMs, fetching);
    const cached = this.timed("cache", lookStartMs, looking);
    return Promise.all([rows, cached]).then(([fetched, entry]) => this.judge(fetched, entry));
  }

  /** A cached answer counts only when it was computed from the very features that were fetched now. */
  private judge(fetched: readonly FeatureRows[], cached: CachedAnswer | undefined): readonly Uint8Array[] | undefined {
    const blocks = this.useFeatures(fetched);
    if (blocks.length > 0) this.featureDigest = featureDigest(blocks);
    const hit = cached !== undefined && cached.featureDigest === this.featureDigest;
    this.deps.cacheLookup(hit ? "hit" : cached === undefined ? "miss" : "stale_features");
    if (!hit) return blocks;
    this.cacheKey = undefined;
    this.answer(cached, true, 0);
    return undefined;
  }

  private useFeatures(fetched: readonly FeatureRows[]): readonly Uint8Array[] {
    for (const [index, rows] of fetched.entries()) {
      const view = this.deps.serving.plan.views[index];
      if (rows.missing > 0 && view !== undefined) this.deps.featuresMissing(view.name, rows.missing);
    }
    return fetched.map((rows) => rows.data);
  }

  private async timed<V>(stage: "features" | "cache", startMs: number, value: V | Promise<V>): Promise<V> {
    const result = value instanceof Promise ? await value : value;
    this.timings[stage] = this.deps.clock.nowMs() - startMs;
    return result;
  }

  private transform(views: readonly Uint8Array[]): void {
    const { plan } = this.deps.serving;
    const startMs = this.deps.clock.nowMs();
    this.tensors = upstreamTensors(plan, this.request.inputs, views, this.rows);
    if (!plan.passThrough) this.timings.transform = this.deps.clock.nowMs() - startMs;
  }

  private enqueue(): void {
    this.bytes = this.tensors.reduce((sum, tensor) => sum + tensor.data.length, 0);
    this.laneKey = laneKey({
      leg: this.leg,
      inputs: this.tensors,
      requestedOutputs: this.requestedOutputs,
      parameters: this.parameters,
    });
    this.enqueuedAtMs = this.deps.clock.nowMs();
    this.waiting = this.deps.serving.queue.enqueue(this);
  }

  /** The caller has gone, which at the deadline is the same as the deadline. */
  private leave(): void {
    if (this.deps.clock.nowMs() >= this.deadlineAtMs - DOOR_EARLY_MS) this.expire();
    else this.end("cancelled", new PredictError("deadline", "the caller has gone"));
  }

  private expire(): void {
    const late =
      this.batchRows > 0 ? "while the model was running" : this.enqueuedAtMs > 0 ? "in the queue" : "before the queue";
    this.fail(new PredictError("deadline", `the deadline passed ${late}; allow more time or send less at once`));
  }

  private answer(
    { outputs, parameters }: Pick<PredictResult, "outputs" | "parameters">,
    cacheHit: boolean,
    batchSize: number,
  ): void {
    if (!this.close()) return;
    this.deps.ended(this, { outcome: "ok", outputs, cacheHit, batchSize });
    this.resolve({ outputs, parameters, timings: this.timings, cacheHit, batchSize });
  }

  private end(outcome: string, error: PredictError): void {
    if (!this.close()) return;
    this.deps.ended(this, { outcome, outputs: NO_TENSORS, cacheHit: false, batchSize: this.batchRows });
    this.reject(error);
  }

  /** The one gate to the end: true for the first who comes. Leaves queue and watch at once. */
  private close(): boolean {
    if (!this.live) return false;
    this.live = false;
    this.deps.deadlines.remove(this.deadline);
    this.cancellation.onCancel = undefined;
    if (this.waiting !== undefined) this.deps.serving.queue.remove(this.waiting);
    this.waiting = undefined;
    return true;
  }
}

function checkRows(inputs: readonly Tensor[], rows: number): void {
  if (rows === 0)
    throw new PredictError("bad_input", `input "${inputs[0]?.name ?? ""}": has no rows; send at least one`);
  for (const input of inputs) {
    if (rowsOf(input) === rows) continue;
    throw new PredictError(
      "bad_input",
      `input "${input.name}": has ${rowsOf(input)} rows, but "${inputs[0]?.name ?? ""}" has ${rows}; all need the same number`,
    );
  }
}

function refusal(error: unknown): PredictError {
  if (error instanceof PredictError) return error;
  const text = error instanceof Error ? error.message : String(error);
  return new PredictError("internal", error instanceof FeatureStoreError ? text : `internal error: ${text}`);
}
