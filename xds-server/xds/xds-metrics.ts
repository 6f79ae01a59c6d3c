import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { refusalReason } from "./csds-refusal-reason.js";
import type { RefusalReason } from "./stream-admission.js";

/** What the xDS server counts. */
export interface XdsMetrics {
  streams(open: number): void;
  sent(type: string, resources: number, bytes: number): void;
  accepted(type: string, tookMs: number): void;
  /** @param words Envoy's own, of which the kind is counted */
  refused(type: string, words: string): void;
  waitExpired(type: string): void;
}

/** `age`: as old as streams become. `client`: gone, or ended by it. `error`: not understood. `closing`: we stop. */
export type StreamEnd = "age" | "client" | "error" | "closing";

/** What the xDS server counts of streams as such. */
export interface ConnectionMetrics {
  streamRefused(reason: RefusalReason): void;
  streamEnded(reason: StreamEnd): void;
}

/** Streams at a moment. */
export interface ConnectionCounts {
  readonly open: number;
  /** Not yet admitted. */
  readonly waiting: number;
  /** Not yet given the present state. */
  readonly behind: number;
}

/** The same as Prometheus metrics. */
export function createConnectionMetrics(registry: Registry): ConnectionMetrics {
  const registers = [registry];
  const labelNames = ["reason"];
  const refused = new Counter({
    name: "servemesh_xds_streams_refused_total",
    help: "New streams that were not taken",
    labelNames,
    registers,
  });
  const ended = new Counter({
    name: "servemesh_xds_streams_ended_total",
    help: "Streams that were taken and have ended",
    labelNames,
    registers,
  });
  return {
    streamRefused: (reason) => refused.inc({ reason }),
    streamEnded: (reason) => ended.inc({ reason }),
  };
}

/** From here on scrapes see the counts. */
export function observeConnections(registry: Registry, counts: () => ConnectionCounts): void {
  const registers = [registry];
  new Gauge({
    name: "servemesh_xds_streams_waiting",
    help: "New streams that wait to be taken",
    registers,
    collect() {
      this.set(counts().waiting);
    },
  });
  new Gauge({
    name: "servemesh_xds_streams_behind",
    help: "Streams that have not been given the present state yet",
    registers,
    collect() {
      this.set(counts().behind);
    },
  });
}

/** The same as Prometheus metrics. */
export function createXdsMetrics(registry: Registry): XdsMetrics {
  const registers = [registry];
  const labelNames = ["type"];
  const streams = new Gauge({ name: "servemesh_xds_streams", help: "Open ADS streams", registers });
  const responses = new Counter({
    name: "servemesh_xds_sent_responses_total",
    help: "Responses sent",
    labelNames,
    registers,
  });
  const resources = new Counter({
    name: "servemesh_xds_sent_resources_total",
    help: "Resources and removals sent",
    labelNames,
    registers,
  });
  const bytes = new Counter({
    name: "servemesh_xds_sent_bytes_total",
    help: "Response bytes sent",
    labelNames,
    registers,
  });
  const acceptedMs = new Histogram({
    name: "servemesh_xds_ack_seconds",
    help: "Time from a response to its acceptance",
    labelNames,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 3, 15],
    registers,
  });
  const refused = new Counter({
    name: "servemesh_xds_nacks_total",
    help: "Refused responses",
    labelNames: ["type", "reason"],
    registers,
  });
  const expired = new Counter({
    name: "servemesh_xds_wait_expired_total",
    help: "Entries sent although what they wait for was not accepted in time",
    labelNames,
    registers,
  });
  return {
    streams: (open) => streams.set(open),
    sent: (type, count, size) => {
      responses.inc({ type });
      resources.inc({ type }, count);
      bytes.inc({ type }, size);
    },
    accepted: (type, tookMs) => acceptedMs.observe({ type }, tookMs / 1000),
    refused: (type, words) => refused.inc({ type, reason: refusalReason(words) }),
    waitExpired: (type) => expired.inc({ type }),
  };
}
