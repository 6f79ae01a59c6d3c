import { status as GrpcStatus, type Server, type ServerDuplexStream } from "@grpc/grpc-js";
import type {
  ClusterStats,
  UpstreamLocalityStats,
} from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/load_report.js";
import {
  LoadReportingServiceService,
  LoadStatsRequest,
  LoadStatsResponse,
} from "@servemesh/proto/gen/envoy/envoy/service/load_stats/v3/lrs.js";
import type { Clock } from "../platform/clock.js";
import type { ClusterReport, LoadReportSink, LocalityReport } from "../telemetry/load-reports.js";
import { withoutNode } from "./lrs-wire.js";
import { type AuthorizeNode, admitNode, refusalCode } from "./node-admission.js";
import { identityOf } from "./node-groups.js";

/** Open streams at a time, as on ADS; one more is told to come back later. */
const STREAMS_MAX = 10_000;
const DEFAULT_INTERVAL_MS = 1_000;
/** Nodes that left and are remembered; beyond that the one that left first is forgotten at once. */
const LEAVING_MAX = 1_000;
/** A gateway that reconnects keeps its sums. */
const DEFAULT_GRACE_MS = 30_000;

/** The part of pino that is used here. */
export interface LrsLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

export interface LrsServerDeps {
  readonly clock: Pick<Clock, "nowMs" | "schedule">;
  readonly logger: LrsLogger;
  readonly sink: LoadReportSink;
  /** As on ADS. */
  readonly authorize?: AuthorizeNode;
  /** How often Envoys shall report; 1 s by default. */
  readonly intervalMs?: number;
  /** How long a node is remembered after its last stream ended; 30 s by default. */
  readonly graceMs?: number;
  /** Nodes that left and are remembered; 1,000 by default. */
  readonly leavingMax?: number;
}

type LrsCall = ServerDuplexStream<Buffer, LoadStatsResponse>;

interface Stream {
  readonly call: LrsCall;
  nodeId: string | undefined;
}

/**
 * Load reporting: asks each Envoy for the figures of all its clusters and hands them on. Reports are decoded without their
 * node but for the first of a stream. Nothing is queued, so a fast reporter costs time and no memory.
 */
export class LrsServer {
  readonly #deps: LrsServerDeps;
  readonly #streams = new Set<Stream>();
  /** By node id: its open streams, at least one. */
  readonly #open = new Map<string, number>();
  /** By node id: cancels its being forgotten. */
  readonly #leaving = new Map<string, () => void>();

  constructor(deps: LrsServerDeps) {
    this.#deps = deps;
  }

  get streamCount(): number {
    return this.#streams.size;
  }

  /** Adds `LoadReportingService`. The caller owns the server, its port and its limits. */
  addTo(server: Server): void {
    const method = LoadReportingServiceService.streamLoadStats;
    server.addService(
      { streamLoadStats: { ...method, requestDeserialize: (bytes: Buffer): Buffer => bytes } },
      { streamLoadStats: (call: LrsCall) => this.#accept(call) },
    );
  }

  /** Ends all streams; Envoys reconnect. What was reported stays with the sink. */
  close(): void {
    for (const stream of [...this.#streams]) {
      this.#streams.delete(stream);
      stream.call.end();
    }
    this.#open.clear();
    for (const cancel of this.#leaving.values()) cancel();
    this.#leaving.clear();
  }

  #accept(call: LrsCall): void {
    if (this.#streams.size >= STREAMS_MAX) {
      const details = `this control plane serves ${STREAMS_MAX} load report streams already; try again later`;
      call.emit("error", { code: GrpcStatus.RESOURCE_EXHAUSTED, details });
      return;
    }
    const stream: Stream = { call, nodeId: undefined };
    this.#streams.add(stream);
    call.on("data", (bytes: Buffer) => this.#receive(stream, bytes));
    call.on("end", () => {
      call.end();
      this.#drop(stream);
    });
    for (const event of ["cancelled", "close", "error"]) call.on(event, () => this.#drop(stream));
  }

  #receive(stream: Stream, bytes: Buffer): void {
    if (!this.#streams.has(stream)) return;
    try {
      const isFirst = stream.nodeId === undefined;
      const request = LoadStatsRequest.decode(isFirst ? bytes : withoutNode(bytes));
      const nodeId = stream.nodeId ?? this.#begin(stream, request);
      this.#deps.sink.record(nodeId, request.clusterStats.map(clusterReport), this.#deps.clock.nowMs());
    } catch (error) {
      const details = error instanceof Error ? error.message : String(error);
      this.#deps.logger.warn({ node: stream.nodeId, problem: details }, "load report stream refused");
      this.#drop(stream);
      stream.call.emit("error", { code: refusalCode(error), details });
    }
  }

  /** The node comes with a stream's first message and counts for the stream's life. */
  #begin(stream: Stream, { node }: LoadStatsRequest): string {
    const claimed = node === undefined ? undefined : identityOf(node);
    const { id: nodeId } = admitNode(stream.call, claimed, this.#deps.authorize);
    stream.nodeId = nodeId;
    this.#open.set(nodeId, (this.#open.get(nodeId) ?? 0) + 1);
    this.#leaving.get(nodeId)?.();
    this.#leaving.delete(nodeId);
    const intervalMs = this.#deps.intervalMs ?? DEFAULT_INTERVAL_MS;
    const loadReportingInterval = { seconds: Math.floor(intervalMs / 1_000), nanos: (intervalMs % 1_000) * 1_000_000 };
    stream.call.write(
      LoadStatsResponse.fromPartial({ sendAllClusters: true, loadReportingInterval, reportEndpointGranularity: false }),
    );
    this.#deps.logger.info({ node: nodeId }, "Envoy reports its load");
    return nodeId;
  }

  #drop(stream: Stream): void {
    if (!this.#streams.delete(stream) || stream.nodeId === undefined) return;
    const { nodeId } = stream;
    const others = (this.#open.get(nodeId) ?? 1) - 1;
    if (others > 0) {
      this.#open.set(nodeId, others);
      return;
    }
    this.#open.delete(nodeId);
    const forget = (): void => {
      this.#leaving.delete(nodeId);
      this.#deps.sink.forget(nodeId);
    };
    this.#leaving.set(nodeId, this.#deps.clock.schedule(this.#deps.graceMs ?? DEFAULT_GRACE_MS, forget));
    const [first] = this.#leaving.keys();
    if (this.#leaving.size <= (this.#deps.leavingMax ?? LEAVING_MAX) || first === undefined) return;
    this.#leaving.get(first)?.();
    this.#leaving.delete(first);
    this.#deps.sink.forget(first);
  }
}

function clusterReport({ clusterName, upstreamLocalityStats }: ClusterStats): ClusterReport {
  return { cluster: clusterName, localities: upstreamLocalityStats.map(localityReport) };
}

function localityReport(stats: UpstreamLocalityStats): LocalityReport {
  const { region = "", zone = "", subZone = "" } = stats.locality ?? {};
  return {
    locality: `${region}/${zone}/${subZone}`,
    issued: stats.totalIssuedRequests,
    success: stats.totalSuccessfulRequests,
    error: stats.totalErrorRequests,
    inProgress: stats.totalRequestsInProgress,
  };
}
