import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { Finding } from "./registry/state.js";
import type { ReplicaSession } from "./replicas/replica-session.js";
import { observeLoadReports } from "./telemetry/load-metrics.js";
import type { LoadReports } from "./telemetry/load-reports.js";
import type { PushTimes } from "./telemetry/push-latency.js";
import {
  type ConnectionCounts,
  type ConnectionMetrics,
  createConnectionMetrics,
  createXdsMetrics,
  observeConnections,
  type XdsMetrics,
} from "./xds/xds-metrics.js";

/** What metrics read when somebody scrapes. */
export interface MetricSources {
  readonly revision: () => bigint;
  readonly findings: () => readonly Finding[];
  readonly sessions: () => readonly ReplicaSession[];
  readonly loads: LoadReports;
  /** Open load report streams. */
  readonly loadStreams: () => number;
  /** Discovery streams. */
  readonly connections: () => ConnectionCounts;
  /** Whether the published state has a cluster. */
  readonly hasCluster: (name: string) => boolean;
}

/** What the control plane counts, and the texts of it. */
export interface ControlPlaneMetrics {
  readonly registry: Registry;
  readonly xds: XdsMetrics;
  readonly connections: ConnectionMetrics;
  adminCalled(method: string, status: string): void;
  /** An Envoy took a response that a change of the registry led to. */
  pushed(typeUrl: string, times: PushTimes): void;
  /** A registry state was planned, translated and published, or at least tried. */
  applied(tookMs: number): void;
  /** From here on scrapes see these. */
  observe(sources: MetricSources): void;
}

/** From a push in a small mesh to one that waits for others as long as it may. */
const PUSH_BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 3, 5, 10];

/** All metrics of one control plane, in a registry of their own. */
export function createControlPlaneMetrics(): ControlPlaneMetrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const adminCalls = new Counter({
    name: "servemesh_admin_calls_total",
    help: "Answered admin calls",
    labelNames: ["method", "status"],
    registers,
  });
  const applySeconds = new Histogram({
    name: "servemesh_apply_seconds",
    help: "Time from a registry state to its published snapshot",
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1],
    registers,
  });
  const pushHistogram = (name: string, help: string) =>
    new Histogram({ name, help, labelNames: ["type"], buckets: PUSH_BUCKETS_SECONDS, registers });
  const wireSeconds = pushHistogram(
    "servemesh_xds_wire_seconds",
    "Time from a change of the registry to a response that it led to",
  );
  const pushSeconds = pushHistogram(
    "servemesh_xds_push_seconds",
    "Time from a change of the registry to an Envoy's acceptance",
  );
  return {
    registry,
    xds: createXdsMetrics(registry),
    connections: createConnectionMetrics(registry),
    adminCalled: (method, status) => adminCalls.inc({ method, status }),
    pushed: (typeUrl, { toWireMs, toAckMs }) => {
      const type = typeUrl.slice(typeUrl.lastIndexOf(".") + 1);
      wireSeconds.observe({ type }, toWireMs / 1_000);
      pushSeconds.observe({ type }, toAckMs / 1_000);
    },
    applied: (tookMs) => applySeconds.observe(tookMs / 1_000),
    observe: (sources) => {
      observe(sources, registers);
      observeConnections(registry, sources.connections);
      observeLoadReports(registry, sources.loads, sources.hasCluster);
    },
  };
}

function observe({ revision, findings, sessions, loadStreams }: MetricSources, registers: Registry[]): void {
  new Gauge({
    name: "servemesh_registry_revision",
    help: "Revision of the registry that is served",
    registers,
    collect() {
      this.set(Number(revision()));
    },
  });
  new Gauge({
    name: "servemesh_findings",
    help: "Records and states that are wrong now",
    labelNames: ["severity"],
    registers,
    collect() {
      const count = (severity: Finding["severity"]): number =>
        findings().filter((found) => found.severity === severity).length;
      this.set({ severity: "error" }, count("error"));
      this.set({ severity: "warning" }, count("warning"));
    },
  });
  new Gauge({
    name: "servemesh_replica_streams",
    help: "Connected batchers",
    registers,
    collect() {
      this.set(sessions().length);
    },
  });
  new Gauge({
    name: "servemesh_load_streams",
    help: "Envoys that report their load",
    registers,
    collect() {
      this.set(loadStreams());
    },
  });
  for (const [name, help, field, scale] of [
    ["servemesh_replica_queued", "Requests that wait at a batcher", "queued", 1],
    ["servemesh_replica_in_flight", "Rows in flight at a batcher's model server", "inFlight", 1],
    ["servemesh_replica_capacity", "Rows that may be in flight there", "capacity", 1],
    ["servemesh_replica_queue_wait_seconds", "Time that a new request would wait", "queueWaitUs", 1e-6],
    ["servemesh_replica_service_seconds", "Median time of one batch", "serviceTimeUs", 1e-6],
  ] as const) {
    new Gauge({
      name,
      help,
      labelNames: ["version", "replica"],
      registers,
      collect() {
        // Replicas that left must not leave their numbers behind.
        this.reset();
        for (const { hello, load } of sessions()) {
          if (load === undefined) continue;
          this.set({ version: `${hello.model}:${hello.version}`, replica: hello.replicaId }, load[field] * scale);
        }
      },
    });
  }
}
