import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

/** Seconds, fine around the single milliseconds that stages take. */
const STAGE_BUCKETS_S = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const ROW_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/** One call of any method, at the doors. `door`, `method` and `outcome` are words of fixed sets. */
export interface CallDone {
  readonly door: string;
  readonly method: string;
  readonly outcome: string;
  readonly durationMs: number;
  readonly requestBytes: number;
  readonly responseBytes: number;
}

/** Milliseconds per stage of the pipeline; absent ones did not run. */
export type StageMs = Readonly<
  Partial<Record<"features" | "cache" | "transform" | "queue" | "infer" | "demux", number>>
>;

/** How a request ended: `ok`, `cancelled` (the caller went) or a refusal's reason. A small fixed set. */
export type Outcome = string;

/** A look at the queue and the cache, read when metrics are scraped. */
export interface Gauges {
  readonly waiting: number;
  readonly waitingBytes: number;
  readonly inFlight: number;
  readonly cacheBytes: number;
  readonly ready: boolean;
}

/**
 * All metrics of one batcher. Labels come from fixed sets or from the version's own spec, never from a request, so their
 * number is bounded.
 */
export interface Metrics {
  readonly registry: Registry;
  /** A call at a door has ended (ingress). */
  callDone(done: CallDone): void;
  finished(leg: "primary" | "shadow", outcome: Outcome, timings: StageMs, totalMs: number): void;
  batchSent(rows: number): void;
  upstreamFailed(kind: string): void;
  lateReply(): void;
  cacheLookup(result: "hit" | "miss" | "stale_features"): void;
  featuresMissing(view: string, rows: number): void;
  journalWritten(records: number): void;
  journalDropped(records: number): void;
  controlPlane(connected: boolean): void;
}

/**
 * @param gauges read at each scrape
 * @param processMetrics also export Node's own (event loop delay, memory); off in tests, where one process has many
 */
export function createMetrics(gauges: () => Gauges, processMetrics: boolean): Metrics {
  const registry = new Registry();
  const registers = [registry];
  if (processMetrics) collectDefaultMetrics({ register: registry });
  const counter = <L extends string>(name: string, help: string, labelNames: L[] = []): Counter<L> =>
    new Counter({ name: `servemesh_batcher_${name}`, help, labelNames, registers });
  const requests = counter("requests_total", "Requests by how they ended", ["leg", "outcome"]);
  const calls = counter("calls_total", "Calls at the doors by how they ended", ["door", "method", "outcome"]);
  const bytes = counter("message_bytes_total", "Bytes of messages at the doors", ["direction"]);
  const upstreamFailures = counter("upstream_failures_total", "Failed calls to the model server", ["kind"]);
  const late = counter("late_replies_total", "Answers of the model server for requests that had left");
  const cache = counter("cache_lookups_total", "Prediction cache look-ups", ["result"]);
  const missing = counter("features_missing_total", "Feature rows of unknown entities, served as zeros", ["view"]);
  const journal = counter("journal_records_total", "Journal records", ["result"]);
  const stages = new Histogram({
    name: "servemesh_batcher_stage_seconds",
    help: "Time per stage of a request",
    labelNames: ["stage"],
    buckets: STAGE_BUCKETS_S,
    registers,
  });
  const rows = new Histogram({
    name: "servemesh_batcher_batch_rows",
    help: "Rows per batch",
    buckets: ROW_BUCKETS,
    registers,
  });
  const connected = new Gauge({
    name: "servemesh_batcher_control_plane_connected",
    help: "1 while the control plane's stream is up",
    registers,
  });
  registerGauges(registry, gauges);
  return {
    registry,
    callDone({ door, method, outcome, requestBytes, responseBytes }) {
      calls.inc({ door, method, outcome });
      bytes.inc({ direction: "in" }, requestBytes);
      bytes.inc({ direction: "out" }, responseBytes);
    },
    finished(leg, outcome, timings, totalMs) {
      requests.inc({ leg, outcome });
      stages.observe({ stage: "total" }, totalMs / 1000);
      for (const [stage, ms] of Object.entries(timings)) stages.observe({ stage }, ms / 1000);
    },
    batchSent: (count) => rows.observe(count),
    upstreamFailed: (kind) => upstreamFailures.inc({ kind }),
    lateReply: () => late.inc(),
    cacheLookup: (result) => cache.inc({ result }),
    featuresMissing: (view, count) => missing.inc({ view }, count),
    journalWritten: (records) => journal.inc({ result: "written" }, records),
    journalDropped: (records) => journal.inc({ result: "dropped" }, records),
    controlPlane: (up) => connected.set(up ? 1 : 0),
  };
}

function registerGauges(registry: Registry, gauges: () => Gauges): void {
  const gauge = (name: string, help: string, read: (now: Gauges) => number): void => {
    new Gauge({
      name: `servemesh_batcher_${name}`,
      help,
      registers: [registry],
      collect() {
        this.set(read(gauges()));
      },
    });
  };
  gauge("queue_requests", "Requests that wait", (now) => now.waiting);
  gauge("queue_bytes", "Tensor bytes that wait", (now) => now.waitingBytes);
  gauge("in_flight_batches", "Batches at the model server", (now) => now.inFlight);
  gauge("cache_bytes", "Bytes of cached answers", (now) => now.cacheBytes);
  gauge("ready", "1 when requests can be served", (now) => (now.ready ? 1 : 0));
}
