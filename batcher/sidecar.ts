import { join } from "node:path";
import { Server } from "@grpc/grpc-js";
import type { Assignment, Load } from "@servemesh/proto/gen/mesh/servemesh/control/v1/replica.js";
import { ModelVersion } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { MeshListener } from "@servemesh/proto/mesh-listener";
import type { Transform } from "@servemesh/wasm-filters";
import type { PredictionCache } from "./cache/prediction-cache.js";
import type { FeatureStore } from "./features/feature-store.js";
import { LmdbFeatureStore } from "./features/lmdb-feature-store.js";
import { createIngress } from "./ingress/ingress.js";
import type { IngressLimits } from "./ingress/limits.js";
import type { ServedModel } from "./ingress/served-model.js";
import { createFileJournal, type Journal, NO_JOURNAL } from "./journal/journal.js";
import { Pipeline } from "./pipeline.js";
import { type Address, formatAddress } from "./platform/address.js";
import { BatcherIdentity, type IdentityFiles } from "./platform/batcher-identity.js";
import { type Clock, systemClock } from "./platform/clock.js";
import { bindServer, naming, shutDownServer } from "./platform/grpc-server.js";
import { type HealthServer, startHealthServer } from "./platform/health-server.js";
import type { Logger } from "./platform/logger.js";
import { createMetrics, type Gauges, type Metrics } from "./platform/metrics.js";
import { ReplicaClient } from "./replica/replica-client.js";
import { type ReportedState, replicaState } from "./replica/replica-state.js";
import { createServing, DEFAULT_SERVING_LIMITS, type Serving, type ServingLimits } from "./serving.js";
import { SpecError } from "./transform/serving-plan.js";
import type { MonitorTimes } from "./triton/monitor.js";
import { TritonClient } from "./triton/triton-client.js";

/** The batcher's limits, all in one place. */
export interface SidecarLimits extends ServingLimits {
  readonly ingress: Partial<IngressLimits>;
  readonly maxJournalTensorBytes: number;
  readonly maxJournalBufferBytes: number;
  readonly maxJournalFileBytes: number;
  /** How long an endpoint that leaves still takes requests, in ms: until the proxies have heard of it. */
  readonly drainGraceMs: number;
  /** How long the last requests may take after that, in ms. */
  readonly drainMs: number;
}

export const DEFAULT_LIMITS: SidecarLimits = {
  ...DEFAULT_SERVING_LIMITS,
  ingress: {},
  maxJournalTensorBytes: 16 * 1024,
  maxJournalBufferBytes: 8 * 1024 * 1024,
  maxJournalFileBytes: 1024 * 1024 * 1024,
  drainGraceMs: 500,
  drainMs: 10_000,
};

/** Who this batcher is and whom it talks to. */
export interface SidecarOptions {
  readonly model: string;
  readonly version: bigint;
  readonly replicaId: string;
  /** Port 0 takes any free one. */
  readonly listen: Address;
  /** Where Envoy reaches it, `host:port`; the bound address when undefined. */
  readonly advertise?: string | undefined;
  readonly triton: Address;
  /** Exactly one of `controlPlane` and `record` is set. */
  readonly controlPlane?: Address | undefined;
  /** Served without a control plane (benchmarks, tests). */
  readonly record?: ModelVersion | undefined;
  readonly journalDir?: string | undefined;
  readonly featuresDir?: string | undefined;
  readonly health?: Address | undefined;
  /** Mutual TLS of the doors and of the connection to the control plane; without it all is plain text on loopback. */
  readonly tls?: IdentityFiles | undefined;
  readonly limits?: Partial<SidecarLimits> | undefined;
}

/** What is injected. */
export interface SidecarDeps {
  readonly logger: Logger;
  readonly loadTransform: (name: string) => Transform | Promise<Transform>;
  readonly clock?: Clock;
  readonly random?: () => number;
  readonly features?: FeatureStore;
  readonly createCache?: (maxBytes: number) => PredictionCache;
  readonly monitorTimes?: MonitorTimes;
  /** Export Node's own metrics too; true unless a process holds several batchers. */
  readonly processMetrics?: boolean;
}

/** A running batcher. */
export interface Sidecar {
  /** Bound `host:port` of the doors. */
  readonly address: string;
  /** Bound port of the health server; undefined without one. */
  readonly healthPort: number | undefined;
  readonly ready: boolean;
  /**
   * Orderly end: tells the control plane, serves on until the proxies have heard of it, refuses new requests, finishes
   * the rest and closes. Calling it again gives the same promise.
   */
  drain(reason: string): Promise<void>;
  /** Ends at once. */
  close(): Promise<void>;
  /** Kept when the batcher has ended, for whatever reason. */
  readonly ended: Promise<void>;
}

const SOFTWARE_VERSION = "0.1.0";

/**
 * Wires and starts one batcher. The only place that knows all parts.
 * @throws Error naming the flag when a port is taken or a directory is missing
 */
export async function createSidecar(options: SidecarOptions, deps: SidecarDeps): Promise<Sidecar> {
  const sidecar = new RunningSidecar(options, deps);
  try {
    await sidecar.start();
  } catch (error) {
    await sidecar.close();
    throw error;
  }
  return sidecar;
}

class RunningSidecar implements Sidecar {
  readonly ended: Promise<void>;
  address = "";
  private readonly limits: SidecarLimits;
  private readonly clock: Clock;
  private readonly metrics: Metrics;
  private readonly journal: Journal;
  private readonly features: FeatureStore | undefined;
  private readonly pipeline: Pipeline;
  private readonly identity: BatcherIdentity | undefined;
  private listener: MeshListener | undefined;
  private server: Server | undefined;
  private health: HealthServer | undefined;
  private replica: ReplicaClient | undefined;
  private serving: Serving | undefined;
  private record: ModelVersion | undefined;
  private specError: string | undefined;
  /** Assignments are taken one after the other: loading a transform takes a moment. */
  private assigning: Promise<void> = Promise.resolve();
  private leaving: Promise<void> | undefined;
  private refusing = false;
  private served: ServedModel | undefined;
  private closing: Promise<void> | undefined;
  private end: () => void = () => {};

  constructor(
    private readonly options: SidecarOptions,
    private readonly deps: SidecarDeps,
  ) {
    this.limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.clock = deps.clock ?? systemClock;
    this.ended = new Promise((resolve) => {
      this.end = resolve;
    });
    this.metrics = createMetrics(() => this.gauges(), deps.processMetrics ?? true);
    const { logger } = deps;
    this.identity = options.tls && new BatcherIdentity(options.tls, options.model, { clock: this.clock, logger });
    this.features = deps.features ?? openFeatures(options.featuresDir);
    this.journal = this.openJournal();
    this.pipeline = new Pipeline({
      clock: this.clock,
      metrics: this.metrics,
      journal: this.journal,
      maxJournalTensorBytes: this.limits.maxJournalTensorBytes,
      serving: () => this.serving,
      draining: () => this.refusing,
    });
  }

  get healthPort(): number | undefined {
    return this.health?.port;
  }

  get ready(): boolean {
    return this.leaving === undefined && this.serving?.monitor.serving === true;
  }

  async start(): Promise<void> {
    await this.listen();
    const { health, record } = this.options;
    if (health !== undefined) {
      const sources = {
        notReady: () => (this.ready ? undefined : this.state().detail || "not ready"),
        metrics: this.metrics.registry,
      };
      this.health = await naming("--health", startHealthServer(health, sources));
    }
    if (record !== undefined) await this.assign(record);
    else this.connect();
    this.deps.logger.info(
      { address: this.address, healthPort: this.healthPort, triton: formatAddress(this.options.triton) },
      "batcher started",
    );
  }

  drain(reason: string): Promise<void> {
    this.leaving ??= this.leave(reason);
    return this.leaving;
  }

  close(): Promise<void> {
    this.closing ??= this.closeAll();
    return this.closing;
  }

  private async leave(reason: string): Promise<void> {
    const { logger } = this.deps;
    logger.info({ reason }, "draining");
    // `leaving` is set once this function has returned its promise, and the report must already say so.
    await Promise.resolve();
    this.changed();
    if (this.replica !== undefined) await this.sleep(this.limits.drainGraceMs);
    this.refusing = true;
    this.changed();
    await Promise.race([this.pipeline.whenIdle(), this.sleep(this.limits.drainMs)]);
    if (this.pipeline.size > 0)
      logger.warn({ requests: this.pipeline.size }, "draining took too long; these requests fail");
    await this.close();
  }

  private async closeAll(): Promise<void> {
    this.refusing = true;
    this.replica?.close();
    this.identity?.close();
    this.listener?.close();
    await shutDownServer(this.server);
    this.serving?.close();
    await this.health?.close();
    await this.journal.close();
    if (this.deps.features === undefined) await this.features?.close();
    this.end();
  }

  private async listen(): Promise<void> {
    const { clock, pipeline, metrics, limits } = this;
    const ingress = createIngress({
      predictor: pipeline,
      served: () => this.served,
      logger: this.deps.logger,
      metrics,
      clock,
      limits: limits.ingress,
      serverVersion: SOFTWARE_VERSION,
    });
    const server = new Server(ingress.serverOptions);
    ingress.addTo(server);
    this.server = server;
    const { host } = this.options.listen;
    const port = await naming("--listen", this.bind(server));
    this.address = formatAddress({ host, port });
  }

  private bind(server: Server): Promise<number> {
    const { host, port } = this.options.listen;
    if (this.identity === undefined) return bindServer(server, formatAddress(this.options.listen));
    this.listener = this.identity.listenerFor(server);
    return this.listener.open(host.replace(/^\[|\]$/g, ""), port);
  }

  private connect(): void {
    const { controlPlane, replicaId, model, version } = this.options;
    if (controlPlane === undefined) throw new Error("--control-plane or --spec: one of them must be given");
    const { clock, metrics, identity } = this;
    const advertise = this.options.advertise ?? this.address;
    this.replica = new ReplicaClient({
      clock,
      logger: this.deps.logger,
      random: this.deps.random ?? Math.random,
      address: formatAddress(controlPlane),
      ...(identity === undefined ? {} : { credentials: () => identity.controlPlaneCredentials() }),
      hello: () => ({
        replicaId,
        model,
        version,
        address: advertise,
        softwareVersion: SOFTWARE_VERSION,
        tls: identity !== undefined,
      }),
      state: () => this.state(),
      load: () => this.load(),
      assigned: (assignment) => this.assigned(assignment),
      drain: (reason) => void this.drain(`the control plane asks: ${reason}`),
      connected: (up) => metrics.controlPlane(up),
    });
    this.replica.start();
    identity?.onChange(() => this.replica?.renew());
  }

  private assigned({ version }: Assignment): void {
    const own = `${this.options.model}:${this.options.version}`;
    const theirs = version === undefined ? undefined : `${version.model}:${version.version}`;
    if (version === undefined) this.refuseRecord(`the control plane has no record of ${own}; register it`);
    else if (theirs !== own) {
      this.refuseRecord(`the control plane assigned ${theirs}, but this batcher was started for ${own}`);
    } else this.assigning = this.assigning.then(() => this.assign(version));
  }

  /** Takes a record; the one that is served stays when the new one cannot be. */
  private async assign(record: ModelVersion): Promise<void> {
    if (this.record !== undefined && sameRecord(this.record, record)) return;
    try {
      const next = await this.createServing(record);
      const old = this.serving;
      this.record = record;
      this.serving = next;
      this.specError = undefined;
      next.monitor.start();
      void old?.queue.whenIdle().then(() => old.close());
      this.changed();
    } catch (error) {
      if (error instanceof SpecError) this.refuseRecord(error.message);
      else this.refuseRecord(`bug: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    }
  }

  private refuseRecord(message: string): void {
    this.deps.logger.error({ message }, "the assigned record cannot be served");
    if (this.serving === undefined) this.specError = message;
    this.changed();
  }

  private createServing(record: ModelVersion): Promise<Serving> {
    const { clock, metrics, limits } = this;
    const { logger, loadTransform, createCache, monitorTimes } = this.deps;
    const triton = formatAddress(this.options.triton);
    return createServing(record, {
      clock,
      logger,
      metrics,
      limits,
      features: this.features,
      loadTransform,
      createModelServer: (model, version) => new TritonClient(triton, model, version, clock),
      healthChanged: () => this.changed(),
      ...(createCache === undefined ? {} : { createCache }),
      ...(monitorTimes === undefined ? {} : { monitorTimes }),
    });
  }

  /** After anything that decides what is served or reported. */
  private changed(): void {
    this.served = this.servedNow();
    this.replica?.stateChanged();
  }

  private servedNow(): ServedModel | undefined {
    const spec = this.record?.serving;
    if (spec === undefined || this.record === undefined || this.serving === undefined) return undefined;
    const { model, version } = this.record;
    return { model, version, spec, ready: this.serving.monitor.serving, draining: this.refusing };
  }

  private state(): ReportedState {
    return replicaState({
      draining: this.leaving !== undefined,
      specError: this.specError,
      health: this.serving?.monitor.state,
      artifactDigest: this.serving?.artifactDigest ?? "",
    });
  }

  private load(): Load {
    const now = this.serving?.queue.load();
    const limits = this.serving?.plan.limits;
    return {
      queued: now?.waiting ?? 0,
      inFlight: now?.inFlight ?? 0,
      capacity: limits === undefined ? 0 : limits.maxInFlight * limits.maxBatchRows,
      queueWaitUs: Math.round((now?.waitMs ?? 0) * 1000),
      serviceTimeUs: Math.round((now?.serviceMs ?? 0) * 1000),
    };
  }

  private gauges(): Gauges {
    const now = this.serving?.queue.load();
    return {
      waiting: now?.waiting ?? 0,
      waitingBytes: now?.waitingBytes ?? 0,
      inFlight: now?.inFlight ?? 0,
      cacheBytes: this.serving?.cache?.bytes ?? 0,
      ready: this.ready,
    };
  }

  private openJournal(): Journal {
    const { journalDir, replicaId } = this.options;
    if (journalDir === undefined) return NO_JOURNAL;
    return createFileJournal({
      directory: join(journalDir, replicaId),
      startedAt: new Date(this.clock.wallMs()),
      maxBufferedBytes: this.limits.maxJournalBufferBytes,
      maxFileBytes: this.limits.maxJournalFileBytes,
      logger: this.deps.logger,
      written: (records) => this.metrics.journalWritten(records),
      dropped: (records) => this.metrics.journalDropped(records),
    });
  }

  private sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => this.clock.schedule(this.clock.nowMs() + delayMs, resolve));
  }
}

function openFeatures(directory: string | undefined): FeatureStore | undefined {
  return directory === undefined ? undefined : new LmdbFeatureStore(directory);
}

/** Records are compared by their bytes; a version's never changes, but the control plane sends it again. */
function sameRecord(a: ModelVersion, b: ModelVersion): boolean {
  return Buffer.compare(ModelVersion.encode(a).finish(), ModelVersion.encode(b).finish()) === 0;
}
