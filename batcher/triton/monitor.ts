import type { Clock, Timer } from "../platform/clock.js";
import type { Logger } from "../platform/logger.js";
import type { ServingPlan } from "../transform/serving-plan.js";
import {
  afterCall,
  afterProbe,
  type HealthState,
  INITIAL_HEALTH,
  isServing,
  type ProbeResult,
} from "./health-policy.js";
import type { ModelServer, UpstreamAnswer } from "./model-server.js";
import { UpstreamError, type UpstreamErrorKind } from "./upstream-error.js";
import { zeroInference } from "./zero-inference.js";

/** How often a ready and a not ready server is asked, and how long each step may take, in ms. */
export interface MonitorTimes {
  readonly readyPollMs: number;
  readonly unreadyPollMs: number;
  readonly callTimeoutMs: number;
  readonly inferTimeoutMs: number;
  readonly loadTimeoutMs: number;
  /** Between two attempts to load the model again. */
  readonly loadIntervalMs: number;
}

export const MONITOR_TIMES: MonitorTimes = {
  readyPollMs: 1_000,
  unreadyPollMs: 200,
  callTimeoutMs: 1_000,
  inferTimeoutMs: 30_000,
  loadTimeoutMs: 60_000,
  loadIntervalMs: 5_000,
};

export interface MonitorDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly server: ModelServer;
  readonly plan: ServingPlan;
  /** What of an answer to one row differs from the spec, for people; undefined when nothing does. */
  readonly answerProblem: (answer: UpstreamAnswer) => string | undefined;
  /** Called after every change of phase or detail. */
  readonly changed: (state: HealthState) => void;
  readonly times?: MonitorTimes;
}

/**
 * Watches one model server. Readiness calls alone prove nothing (a dead python process leaves them positive), so whenever
 * there is doubt one zero inference decides, and a model whose process has died is loaded again. While the server is
 * ready it is only asked whether it still says so; real answers do the rest.
 */
export class ModelServerMonitor {
  private current: HealthState = INITIAL_HEALTH;
  private timer: Timer | undefined;
  private probing = false;
  private closed = false;
  private missedPolls = 0;
  private lastLoadMs = Number.NEGATIVE_INFINITY;
  private readonly times: MonitorTimes;

  constructor(private readonly deps: MonitorDeps) {
    this.times = deps.times ?? MONITOR_TIMES;
  }

  get state(): HealthState {
    return this.current;
  }

  /** Whether requests may be sent. */
  get serving(): boolean {
    return isServing(this.current);
  }

  start(): void {
    this.schedule(0);
  }

  close(): void {
    this.closed = true;
    this.timer?.cancel();
  }

  /** Takes the outcome of a real batch: undefined for an answer. */
  record(error: UpstreamError | undefined): void {
    const before = this.current;
    this.set(afterCall(before, error?.kind, error?.message ?? ""));
    if (before.phase === "ready" && this.current.phase !== "ready") this.schedule(0);
  }

  private schedule(delayMs: number): void {
    if (this.closed || this.probing) return;
    this.timer?.cancel();
    this.timer = this.deps.clock.schedule(this.deps.clock.nowMs() + delayMs, () => void this.tick());
  }

  private async tick(): Promise<void> {
    this.probing = true;
    try {
      if (this.current.phase === "ready") await this.poll();
      if (this.current.phase !== "ready") await this.probe();
    } catch (error) {
      this.deps.logger.error({ err: error }, "bug in the model server monitor");
    }
    this.probing = false;
    this.schedule(this.current.phase === "ready" ? this.times.readyPollMs : this.times.unreadyPollMs);
  }

  /** A ready server is doubted when it says so itself, or does not answer twice in a row. */
  private async poll(): Promise<void> {
    const failure = await this.attempt(() => this.readyCalls());
    this.missedPolls = failure === undefined ? 0 : this.missedPolls + 1;
    if (failure === undefined || (failure.kind === "deadline" && this.missedPolls < 2)) return;
    this.set(afterProbe(this.current, { kind: "failed", failure: failure.kind, detail: failure.message }));
  }

  private async probe(): Promise<void> {
    let failure = await this.attempt(() => this.readyCalls());
    if (failure === undefined && this.current.needsLoad) failure = await this.reload();
    failure ??= await this.attempt(() => this.inferZeros());
    if (this.closed) return;
    const result: ProbeResult =
      failure === undefined ? { kind: "ok" } : { kind: "failed", failure: failure.kind, detail: failure.message };
    this.set(afterProbe(this.current, result));
  }

  private async readyCalls(): Promise<void> {
    if (await this.deps.server.ready(this.deps.clock.nowMs() + this.times.callTimeoutMs)) return;
    throw new UpstreamError("unreachable", "the model server says that it or the model is not ready");
  }

  private async inferZeros(): Promise<void> {
    const { server, clock, plan } = this.deps;
    const answer = await server.infer(zeroInference(plan), clock.nowMs() + this.times.inferTimeoutMs);
    const problem = this.deps.answerProblem(answer);
    if (problem !== undefined) throw new UpstreamError("failed", `zero inference: ${problem}`);
  }

  private async reload(): Promise<UpstreamError | undefined> {
    const { clock, logger, server, plan } = this.deps;
    const waitMs = this.lastLoadMs + this.times.loadIntervalMs - clock.nowMs();
    if (waitMs > 0) return new UpstreamError("stub_dead", this.current.detail);
    this.lastLoadMs = clock.nowMs();
    logger.warn({ model: plan.model, detail: this.current.detail }, "loading the model again");
    return await this.attempt(() => server.load(clock.nowMs() + this.times.loadTimeoutMs));
  }

  private async attempt(step: () => Promise<void>): Promise<UpstreamError | undefined> {
    try {
      await step();
      return undefined;
    } catch (error) {
      if (error instanceof UpstreamError) return error;
      const kind: UpstreamErrorKind = "failed";
      return new UpstreamError(kind, error instanceof Error ? error.message : String(error));
    }
  }

  private set(next: HealthState): void {
    const before = this.current;
    this.current = next;
    if (before.phase === next.phase && before.detail === next.detail) return;
    const { logger, changed } = this.deps;
    if (before.phase !== next.phase)
      logger.info({ from: before.phase, to: next.phase, detail: next.detail }, "model server");
    changed(next);
  }
}
