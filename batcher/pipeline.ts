import type { Journal } from "./journal/journal.js";
import { isJournaled, journalRecord } from "./journal/journal-record.js";
import type { Clock } from "./platform/clock.js";
import type { Metrics } from "./platform/metrics.js";
import { type CallDeps, type CallEnd, PredictCall } from "./predict-call.js";
import { DeadlineWatch } from "./queue/deadline-watch.js";
import { type Cancellation, PredictError, type Predictor, type PredictRequest, type PredictResult } from "./request.js";
import type { Serving } from "./serving.js";

export interface PipelineDeps {
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly journal: Journal;
  /** Bytes of one tensor that a journal record keeps. */
  readonly maxJournalTensorBytes: number;
  /** What is served now; undefined before the first assignment. */
  readonly serving: () => Serving | undefined;
  /** New requests are refused, those inside are finished. */
  readonly draining: () => boolean;
}

/** The stages behind the doors: cache and features together, transform, queue, batch, model server, split, journal. */
export class Pipeline implements Predictor {
  private readonly deadlines: DeadlineWatch;
  private active = 0;
  private idle: (() => void)[] = [];
  private current: { readonly serving: Serving; readonly deps: CallDeps } | undefined;

  constructor(private readonly deps: PipelineDeps) {
    this.deadlines = new DeadlineWatch(deps.clock);
  }

  predict(request: PredictRequest, cancellation: Cancellation): Promise<PredictResult> {
    const serving = this.deps.serving();
    const refusal = this.refuse(serving);
    if (refusal !== undefined || serving === undefined) {
      const error = refusal ?? new PredictError("unavailable", "no version is assigned yet");
      this.deps.metrics.finished(request.context.leg, error.reason, {}, 0);
      return Promise.reject(error);
    }
    this.active += 1;
    return new Promise((resolve, reject) => {
      void new PredictCall(request, cancellation, this.callDeps(serving), resolve, reject).start();
    });
  }

  /** Requests inside. */
  get size(): number {
    return this.active;
  }

  /** Kept when no request is inside. */
  whenIdle(): Promise<void> {
    if (this.active === 0) return Promise.resolve();
    return new Promise((resolve) => this.idle.push(resolve));
  }

  private refuse(serving: Serving | undefined): PredictError | undefined {
    if (this.deps.draining()) return new PredictError("draining", "this replica is being taken out; try again");
    if (serving === undefined) return new PredictError("unavailable", "no version is assigned to this replica yet");
    if (serving.monitor.serving) return undefined;
    return new PredictError("unavailable", `the model server is not ready: ${serving.monitor.state.detail}`);
  }

  /** Shared by all calls of one assignment. */
  private callDeps(serving: Serving): CallDeps {
    if (this.current?.serving === serving) return this.current.deps;
    const { clock, metrics } = this.deps;
    const deps: CallDeps = {
      clock,
      deadlines: this.deadlines,
      serving,
      cacheLookup: metrics.cacheLookup,
      featuresMissing: metrics.featuresMissing,
      ended: (call, end) => this.ended(call, end, serving),
    };
    this.current = { serving, deps };
    return deps;
  }

  private ended(call: PredictCall, end: CallEnd, serving: Serving): void {
    const { clock, metrics } = this.deps;
    const { context } = call.request;
    metrics.finished(context.leg, end.outcome, call.timings, clock.nowMs() - context.arrivedAtMs);
    this.active -= 1;
    if (isJournaled(call.request)) this.journal(call, end, serving);
    if (this.active > 0 || this.idle.length === 0) return;
    const waiters = this.idle;
    this.idle = [];
    for (const resolve of waiters) resolve();
  }

  private journal(call: PredictCall, end: CallEnd, serving: Serving): void {
    const { journal, clock, maxJournalTensorBytes } = this.deps;
    const record = journalRecord(
      {
        request: call.request,
        upstream: call.tensors,
        outputs: end.outputs,
        timings: call.timings,
        reason: end.outcome === "ok" ? "" : end.outcome,
        cacheHit: end.cacheHit,
        batchSize: end.batchSize,
        servedBy: `${serving.plan.model}:${serving.plan.version}`,
        at: new Date(clock.wallMs()),
      },
      maxJournalTensorBytes,
    );
    journal.write(record);
  }
}
