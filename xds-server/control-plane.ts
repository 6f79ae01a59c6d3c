import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { restDescriptorPath } from "@servemesh/proto/sources";
import { loadGateModule } from "@servemesh/wasm-filters";
import { addAdminService, REQUEST_MAX_BYTES } from "./admin/admin-service.js";
import { addClientStatusService } from "./admin/client-status.js";
import { type ControlPlaneMetrics, createControlPlaneMetrics } from "./control-plane-metrics.js";
import { type GateTools, gateToolsOf } from "./gate-compiler.js";
import { type Address, formatAddress } from "./platform/address.js";
import { type Clock, systemClock } from "./platform/clock.js";
import { type Debounced, type DebounceTimes, debounce } from "./platform/debounce.js";
import { bindServer, shutDownServer } from "./platform/grpc-server.js";
import { type HealthServer, startHealthServer } from "./platform/health-server.js";
import type { Logger } from "./platform/logger.js";
import { readOrCreateToken } from "./platform/token-file.js";
import type { RandomBytes } from "./registry/api-key.js";
import { LmdbStore } from "./registry/lmdb-store.js";
import { Registry } from "./registry/registry.js";
import type { Finding } from "./registry/state.js";
import type { Store } from "./registry/store.js";
import { ReplicaService } from "./replicas/replica-service.js";
import { machineFiles } from "./secrets/file-access.js";
import { SecretFiles } from "./secrets/secret-files.js";
import { CLUSTER_TYPE } from "./snapshot/resource-types.js";
import { LoadReports, type LoadSum } from "./telemetry/load-reports.js";
import { PushLatency } from "./telemetry/push-latency.js";
import { type AdsDoor, type DoorFiles, meshDoor, plainDoor } from "./trust/ads-door.js";
import { BatcherRanges } from "./trust/batcher-identity.js";
import { NodeBook, tellAll } from "./xds/csds-node-book.js";
import { LrsServer } from "./xds/lrs-server.js";
import type { NodeStatus, SettleReport } from "./xds/xds-server.js";
import { createXdsPipeline, type XdsPipeline } from "./xds-pipeline.js";

export interface ControlPlaneOptions {
  /** Folder of the embedded store; made if absent. */
  readonly store: string;
  /** ADS and load reports of Envoys, ReplicaService for batchers; a loopback address unless there is `tls`. */
  readonly ads: Address;
  /** Mutual TLS of the ADS port; without it the port is plain text and believes who connects. */
  readonly tls?: DoorFiles;
  /** Addresses that batchers may register besides their connection's own: `10.1.0.0/16`. */
  readonly batcherRanges?: readonly string[];
  /** AdminService, in plain text. */
  readonly admin: Address;
  /** `/live`, `/ready` and `/metrics`. */
  readonly health: Address;
  /** Bearer token of the admin port; made with mode 0600 if absent. */
  readonly tokenFile: string;
  /** Where gateways write one JSON line per call; absent means nowhere. */
  readonly accessLog?: string;
}

export interface ControlPlaneDeps {
  readonly logger: Logger;
  /** Time of leases, debouncing and patience; the machine's by default. */
  readonly clock?: Clock;
  /** Source of keys and tokens; the machine's secure one by default. */
  readonly random?: RandomBytes;
  /** The gate filter; the built one by default. */
  readonly gate?: GateTools;
  /** Opens the registry's records, which the control plane closes; the embedded store by default. @throws Error with one sentence */
  readonly openStore?: (folder: string, clock: Clock) => Store;
}

/** A running control plane. */
export interface ControlPlane {
  /** `host:port` as bound, with the port that the operating system chose for port 0. */
  readonly adsAddress: string;
  readonly adminAddress: string;
  readonly healthPort: number;
  /** The admin port's bearer token. */
  readonly token: string;
  /** True while there is a snapshot to serve and all ports are open. */
  readonly ready: boolean;
  /** Everything that is wrong now: records, plan, gateways, replicas. */
  findings(): Finding[];
  nodes(): NodeStatus[];
  /** What Envoys report of their calls, by cluster: the sums of all that are connected or left a moment ago. */
  loads(): ReadonlyMap<string, LoadSum>;
  /** Waits until every connected Envoy, or each of `nodeIds` that is connected, took or refused what the registry says now. */
  whenSettled(timeoutMs: number, nodeIds?: ReadonlySet<string>): Promise<SettleReport>;
  /** Ends everything in order. Envoys and batchers keep what they have; records of replicas stay. */
  close(): Promise<void>;
}

/**
 * A burst of registry changes becomes one snapshot: 2 ms of quiet, at most 20 ms after the first. In a large mesh, whose
 * snapshot takes longer, changes wait longer, so that answering Envoys and operators is never starved by publishing.
 */
function publishTimes(lastTookMs: number): DebounceTimes {
  return { quietMs: Math.max(2, lastTookMs / 4), capMs: Math.max(20, lastTookMs) };
}

/** How long answers that are being written may take at the end. */
const GRACE_MS = 1_000;

/**
 * An Envoy's first request names everything that it holds; with many models that is above grpc-js's 4 MiB. Keepalive
 * finds peers that vanished without a word, so that their endpoints go.
 */
const ADS_SERVER_OPTIONS = {
  "grpc.max_receive_message_length": 64 * 1024 * 1024,
  "grpc.max_send_message_length": -1,
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 5_000,
};
const ADMIN_SERVER_OPTIONS = { "grpc.max_receive_message_length": REQUEST_MAX_BYTES };

/**
 * Starts a control plane: store, registry, pipeline, replicas, admin and health. The only place that wires. When this
 * resolves the registry has been read as a whole, its snapshot is served, and all ports are open.
 * @throws Error with one sentence that names the flag or path, when something cannot be opened; nothing stays open then
 */
export async function createControlPlane(options: ControlPlaneOptions, deps: ControlPlaneDeps): Promise<ControlPlane> {
  const clock = deps.clock ?? systemClock;
  const random = deps.random ?? randomBytes;
  // What can be wrong on the command line comes before the store is touched.
  const gate = deps.gate ?? gateToolsOf(loadGateModule().bytes);
  const transcoderDescriptor = readDescriptor();
  const ranges = new BatcherRanges(options.batcherRanges ?? []);
  const token = readOrCreateToken(options.tokenFile, random);
  const door = options.tls === undefined ? plainDoor() : meshDoor(options.tls, { clock, logger: deps.logger });
  const store = openStore(deps.openStore ?? embeddedStore, options.store, clock, door);
  const parts = { logger: deps.logger, clock, random, gate, transcoderDescriptor, ranges, token, door, store };
  const starting = new ControlPlaneProcess(options, parts);
  try {
    await starting.start();
    return starting;
  } catch (error) {
    await starting.close();
    throw error;
  }
}

const embeddedStore = (folder: string, clock: Clock): Store => new LmdbStore(folder, clock);

function openStore(open: typeof embeddedStore, folder: string, clock: Clock, door: AdsDoor): Store {
  try {
    return open(folder, clock);
  } catch (error) {
    door.close();
    throw error;
  }
}

interface Parts {
  readonly logger: Logger;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly gate: GateTools;
  readonly transcoderDescriptor: Uint8Array;
  readonly ranges: BatcherRanges;
  readonly token: string;
  readonly door: AdsDoor;
  readonly store: Store;
}

class ControlPlaneProcess implements ControlPlane {
  readonly #options: ControlPlaneOptions;
  readonly #parts: Parts;
  readonly #metrics: ControlPlaneMetrics = createControlPlaneMetrics();
  readonly #nodeBook: NodeBook;
  readonly #loads = new LoadReports();
  readonly #lrs: LrsServer;
  readonly #pushes: PushLatency;
  readonly #secrets: SecretFiles;
  readonly #pipeline: XdsPipeline;
  readonly #adsServer = new Server(ADS_SERVER_OPTIONS);
  readonly #adminServer = new Server(ADMIN_SERVER_OPTIONS);
  readonly #publishing: Debounced;
  #registry: Registry | undefined;
  #replicas: ReplicaService | undefined;
  #health: HealthServer | undefined;
  #applied: readonly Finding[] = [];
  #tookMs = 0;
  #loggedErrors = new Set<string>();
  #closing: Promise<void> | undefined;
  adsAddress = "";
  adminAddress = "";

  constructor(options: ControlPlaneOptions, parts: Parts) {
    this.#options = options;
    this.#parts = parts;
    const { clock, logger, gate, transcoderDescriptor, door } = parts;
    const authorize = door.authorizeNode === undefined ? {} : { authorize: door.authorizeNode };
    this.#nodeBook = new NodeBook(clock);
    this.#pushes = new PushLatency(
      () => clock.nowMs(),
      (typeUrl, times) => this.#metrics.pushed(typeUrl, times),
    );
    this.#secrets = new SecretFiles({ clock, logger, files: machineFiles, onChange: () => this.#changed() });
    this.#pipeline = createXdsPipeline({
      ...authorize,
      observer: tellAll(this.#nodeBook, this.#pushes),
      clock,
      logger,
      gate,
      metrics: this.#metrics.xds,
      connectionMetrics: this.#metrics.connections,
      transcoderDescriptor,
      secrets: this.#secrets,
    });
    this.#lrs = new LrsServer({ ...authorize, clock, logger, sink: this.#loads });
    this.#publishing = debounce(
      clock,
      () => publishTimes(this.#tookMs),
      () => this.#publish(),
    );
  }

  get healthPort(): number {
    return this.#health?.address.port ?? 0;
  }

  get token(): string {
    return this.#parts.token;
  }

  get ready(): boolean {
    return this.#closing === undefined && this.adsAddress !== "" && this.#pipeline.server.isPublished;
  }

  findings(): Finding[] {
    const replicas = this.#replicas?.findings() ?? [];
    const all = [...this.#applied, ...this.#pipeline.server.findings(), ...replicas, ...this.#parts.door.findings()];
    // One record may be reported by the registry and by the plan.
    return [...new Map(all.map((found) => [JSON.stringify(found), found])).values()];
  }

  nodes(): NodeStatus[] {
    return this.#pipeline.server.status();
  }

  loads(): ReadonlyMap<string, LoadSum> {
    return this.#loads.clusterSums();
  }

  whenSettled(timeoutMs: number, nodeIds?: ReadonlySet<string>): Promise<SettleReport> {
    // What was written a moment ago may still wait for its burst to end.
    this.#publishing.cancel();
    this.#publish();
    return this.#pipeline.server.whenSettled(timeoutMs, nodeIds);
  }

  async start(): Promise<void> {
    const { store, clock, logger, token, random, door, ranges } = this.#parts;
    const registry = await Registry.open({
      store,
      clock,
      onReadFailure: (problem) => logger.error({ problem }, "the store cannot be read; serving what was read before"),
    });
    this.#registry = registry;
    const authorize = door.authorizeBatcher === undefined ? {} : { authorize: door.authorizeBatcher };
    const replicas = new ReplicaService({ ...authorize, registry, clock, logger, ranges });
    this.#replicas = replicas;
    registry.onChange(() => this.#changed());
    this.#publish();
    this.#metrics.observe({
      revision: () => registry.state.revision,
      findings: () => this.findings(),
      sessions: () => replicas.sessions,
      loads: this.#loads,
      loadStreams: () => this.#lrs.streamCount,
      connections: () => this.#pipeline.server.counts(),
      hasCluster: (name) => this.#pipeline.server.has(CLUSTER_TYPE, name),
    });
    const adminCalls = {
      token,
      logger,
      called: (method: string, status: string) => this.#metrics.adminCalled(method, status),
      xdsNodes: () => this.#nodeBook.nodes(),
    };
    addAdminService(this.#adminServer, {
      ...adminCalls,
      registry,
      random,
      clock,
      findings: () => this.findings(),
      nodes: () => this.nodes().map((node) => ({ ...node, types: [...node.types] })),
    });
    addClientStatusService(this.#adminServer, adminCalls);
    this.#pipeline.server.addTo(this.#adsServer);
    replicas.addTo(this.#adsServer);
    this.#lrs.addTo(this.#adsServer);
    await this.#openPorts();
    const { adsAddress, adminAddress, healthPort } = this;
    logger.info({ ads: adsAddress, admin: adminAddress, healthPort, revision: `${registry.state.revision}` }, "ready");
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #openPorts(): Promise<void> {
    const { ads, admin, health } = this.#options;
    this.#health = await startHealthServer(health, "--health", {
      notReady: () => (this.ready ? undefined : this.#closing === undefined ? "starting" : "stopping"),
      metrics: this.#metrics.registry,
    });
    const plain = ServerCredentials.createInsecure();
    this.adminAddress = formatAddress(await bindServer(this.#adminServer, plain, admin, "--admin"));
    // Last, because Envoys and batchers come at once.
    this.adsAddress = formatAddress(await this.#parts.door.open(this.#adsServer, ads));
  }

  /** The order: nothing new comes in, streams end while their records stay, writes finish, then the store. */
  async #close(): Promise<void> {
    this.#secrets.close();
    this.#parts.door.close();
    this.#publishing.cancel();
    await this.#replicas?.close();
    this.#pipeline.server.close();
    this.#lrs.close();
    await Promise.all([shutDownServer(this.#adminServer, GRACE_MS), shutDownServer(this.#adsServer, GRACE_MS)]);
    await this.#health?.close();
    this.#registry?.close();
    await this.#parts.store.close();
  }

  /** Something that snapshots are made of changed. */
  #changed(): void {
    this.#pushes.changed();
    this.#publishing.ask();
  }

  #publish(): void {
    if (this.#registry === undefined) return;
    const { clock } = this.#parts;
    const { accessLog } = this.#options;
    const beganMs = clock.nowMs();
    this.#pushes.publishing();
    // Gateways have a working directory of their own.
    const settings = accessLog === undefined ? {} : { accessLogPath: resolve(accessLog) };
    this.#applied = this.#pipeline.apply(this.#registry.state, settings);
    this.#tookMs = clock.nowMs() - beganMs;
    this.#metrics.applied(this.#tookMs);
    this.#logNewErrors();
  }

  /** Each once, when it appears; the status has what is wrong now. */
  #logNewErrors(): void {
    const before = this.#loggedErrors;
    this.#loggedErrors = new Set();
    for (const { severity, subject, message } of this.#applied) {
      if (severity !== "error") continue;
      const text = `${subject}: ${message}`;
      this.#loggedErrors.add(text);
      if (!before.has(text)) this.#parts.logger.warn({ subject, problem: message }, "finding");
    }
  }
}

function readDescriptor(): Uint8Array {
  try {
    return readFileSync(restDescriptorPath);
  } catch (error) {
    throw new Error(`the REST descriptors cannot be read (${(error as Error).message}); run npm run setup`);
  }
}
