import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { refusalReason } from "./csds-refusal-reason.js";

/** What the xDS server counts. */
export interface XdsMetrics {
  streams(open: number): void;
  sent(type: string, resources: number, bytes: number): void;
  accepted(type: string, tookMs: number): void;
  /** @param words Envoy's own, of which the kind is counted */
  refused(type: string, words: string): void;
  waitExpired(type: string): void;
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
