import type { ModelVersion } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { Transform } from "@servemesh/wasm-filters";
import { answerProblem, outputProblem } from "./batch/answer-check.js";
import { type InferAnswer, type InferFailure, runBatch } from "./batch/batch-runner.js";
import type { MergedTensor } from "./batch/merge.js";
import { LruPredictionCache, type PredictionCache } from "./cache/prediction-cache.js";
import type { FeatureStore } from "./features/feature-store.js";
import type { Clock } from "./platform/clock.js";
import type { Logger } from "./platform/logger.js";
import type { Metrics } from "./platform/metrics.js";
import { BatchQueue } from "./queue/batch-queue.js";
import type { QueuedCall } from "./queued-call.js";
import { type ParameterValue, PredictError } from "./request.js";
import { compileServingPlan, type ServingPlan, SpecError } from "./transform/serving-plan.js";
import type { HealthState } from "./triton/health-policy.js";
import type { ModelServer } from "./triton/model-server.js";
import { ModelServerMonitor, type MonitorTimes } from "./triton/monitor.js";
import { refusalOf } from "./triton/refusal.js";
import { UpstreamError } from "./triton/upstream-error.js";

/** One assigned version with everything that serves it. */
export interface Serving {
  readonly plan: ServingPlan;
  readonly artifactDigest: string;
  readonly queue: BatchQueue<QueuedCall>;
  /** Undefined when answers must not be reused. */
  readonly cache: PredictionCache | undefined;
  readonly features: FeatureStore | undefined;
  readonly monitor: ModelServerMonitor;
  close(): void;
}

export interface ServingDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly createModelServer: (model: string, version: bigint) => ModelServer;
  /** Undefined without `--features-dir`. */
  readonly features: FeatureStore | undefined;
  readonly loadTransform: (name: string) => Transform | Promise<Transform>;
  /** Tests and a remote tier may bring their own. */
  readonly createCache?: (maxBytes: number) => PredictionCache;
  readonly healthChanged: (state: HealthState) => void;
  readonly limits: ServingLimits;
  readonly monitorTimes?: MonitorTimes;
}

/** The batcher's own limits, whatever a version's record says. */
export interface ServingLimits {
  /** Tensor bytes of one leg that may wait. */
  readonly maxWaitingBytes: number;
  /** How long an abandoned batch may hold its slot beyond its members' deadlines, in ms. */
  readonly upstreamGraceMs: number;
  /** Limit of a batch whose members have no deadline, in ms. */
  readonly maxUpstreamMs: number;
}

export const DEFAULT_SERVING_LIMITS: ServingLimits = {
  maxWaitingBytes: 256 * 1024 * 1024,
  upstreamGraceMs: 10_000,
  maxUpstreamMs: 60_000,
};

/**
 * Makes a version servable. Nothing is sent to the model server before `monitor.start()`.
 * @throws SpecError when the record, its transform or its features do not fit together
 */
export async function createServing(version: ModelVersion, deps: ServingDeps): Promise<Serving> {
  const transform = await loadNamedTransform(version.serving?.transform ?? "", deps);
  const plan = compileServingPlan(version, transform, deps.limits.maxWaitingBytes);
  checkViews(plan, deps.features);
  const server = deps.createModelServer(plan.model, plan.version);
  const { clock, logger, healthChanged: changed } = deps;
  const times = deps.monitorTimes === undefined ? {} : { times: deps.monitorTimes };
  const monitor = new ModelServerMonitor({
    clock,
    logger,
    server,
    plan,
    answerProblem: (answer) => answerProblem(plan, answer.outputs, 1),
    changed,
    ...times,
  });
  const createCache = deps.createCache ?? ((maxBytes) => new LruPredictionCache(maxBytes));
  return {
    plan,
    artifactDigest: version.artifactDigest,
    queue: createQueue(plan, server, monitor, deps),
    cache: plan.cacheMaxBytes === undefined ? undefined : createCache(plan.cacheMaxBytes),
    features: deps.features,
    monitor,
    close() {
      monitor.close();
      server.close();
    },
  };
}

async function loadNamedTransform(name: string, deps: ServingDeps): Promise<Transform | undefined> {
  if (name === "") return undefined;
  try {
    return await deps.loadTransform(name);
  } catch (error) {
    throw new SpecError(`serving.transform "${name}": ${error instanceof Error ? error.message : String(error)}`);
  }
}

function checkViews(plan: ServingPlan, features: FeatureStore | undefined): void {
  if (plan.views.length === 0) return;
  if (features === undefined)
    throw new SpecError("serving.views: this batcher has no feature store; start it with --features-dir");
  try {
    for (const view of plan.views) features.check(view.name, view.width);
  } catch (error) {
    throw new SpecError(`serving.views: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function createQueue(
  plan: ServingPlan,
  server: ModelServer,
  monitor: ModelServerMonitor,
  deps: ServingDeps,
): BatchQueue<QueuedCall> {
  const { clock, logger, metrics, limits } = deps;
  const outputs = new Map(plan.outputs.map((output) => [output.name, output]));
  const runner = {
    clock,
    plan,
    infer: inferOn(server, monitor, metrics),
    outputProblem: (output: InferAnswer["outputs"][number]) => {
      const expected = outputs.get(output.name);
      return expected === undefined ? undefined : outputProblem(expected, output);
    },
    late: () => metrics.lateReply(),
    answered: (_rows: number, inferMs: number) => queue.recordService(inferMs),
    graceMs: limits.upstreamGraceMs,
    maxCallMs: limits.maxUpstreamMs,
  };
  const queue: BatchQueue<QueuedCall> = new BatchQueue(plan.limits, {
    clock,
    dispatch: (batch) =>
      runBatch(
        batch.map((waiting) => waiting.item),
        runner,
      ),
    hopeless: (call, remainingMs, floorMs) => {
      const left = Math.max(0, remainingMs).toFixed(1);
      call.fail(
        new PredictError(
          "deadline",
          `${left} ms were left after queueing, but the fastest recent batch took ${floorMs.toFixed(1)} ms`,
        ),
      );
    },
    bug: (error) => logger.error({ err: error }, "bug while running a batch"),
  });
  return queue;
}

/** One call to the model server, whose outcome also tells the monitor how the server is. */
function inferOn(server: ModelServer, monitor: ModelServerMonitor, metrics: Metrics) {
  return async (
    inputs: readonly MergedTensor[],
    outputs: readonly string[],
    parameters: ReadonlyMap<string, ParameterValue>,
    deadlineAtMs: number,
  ): Promise<InferAnswer | InferFailure> => {
    metrics.batchSent(inputs[0]?.shape[0] ?? 0);
    try {
      const answer = await server.infer({ inputs, outputs, parameters }, deadlineAtMs);
      monitor.record(undefined);
      return answer;
    } catch (error) {
      const failure = error instanceof UpstreamError ? error : new UpstreamError("failed", String(error));
      metrics.upstreamFailed(failure.kind);
      monitor.record(failure);
      return { rejected: failure.kind === "rejected", error: refusalOf(failure) };
    }
  };
}
