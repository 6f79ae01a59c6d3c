import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { Finding } from "./registry/state.js";
import type { ReplicaSession } from "./replicas/replica-session.js";
import { createXdsMetrics, type XdsMetrics } from "./xds/xds-metrics.js";

/** What metrics read when somebody scrapes. */
export interface MetricSources {
  readonly revision: () => bigint;
  readonly findings: () => readonly Finding[];
  readonly sessions: () => readonly ReplicaSession[];
}

/** What the control plane counts, and the texts of it. */
export interface ControlPlaneMetrics {
  readonly registry: Registry;
  readonly xds: XdsMetrics;
  adminCalled(method: string, status: string): void;
  /** A registry state was planned, translated and published, or at least tried. */
  applied(tookMs: number): void;
  /** From here on scrapes see these. */
  observe(sources: MetricSources): void;
}

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
  return {
    registry,
    xds: createXdsMetrics(registry),
    adminCalled: (method, status) => adminCalls.inc({ method, status }),
    applied: (tookMs) => applySeconds.observe(tookMs / 1_000),
    observe: (sources) => observe(sources, registers),
  };
}

function observe({ revision, findings, sessions }: MetricSources, registers: Registry[]): void {
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
