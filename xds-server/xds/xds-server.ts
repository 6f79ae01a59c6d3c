import { status as GrpcStatus, type Server, type ServerDuplexStream } from "@grpc/grpc-js";
import { AggregatedDiscoveryServiceService } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/ads.js";
import { DeltaDiscoveryRequest } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import type { Clock } from "../platform/clock.js";
import type { Finding } from "../registry/state.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import { DeltaSession, type Outgoing } from "./delta-session.js";
import { encodeDeltaResponse } from "./delta-wire.js";
import { NodeRecord, REMOVED } from "./node-record.js";
import type { XdsMetrics } from "./xds-metrics.js";

/** Open streams at a time; one more is told to come back later. */
const STREAMS_MAX = 2_000;
/** Envoys whose refusals are remembered. */
const NODES_MAX = 4_096;
const NODE_ID_MAX_CHARS = 256;

/** The part of pino that is used here. */
export interface XdsLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

export interface XdsServerDeps {
  readonly clock: Pick<Clock, "nowMs" | "schedule">;
  readonly logger: XdsLogger;
  readonly metrics?: XdsMetrics;
  /** Name of this control plane in its responses. */
  readonly identifier?: string;
}

/** What one connected Envoy was sent and has taken. */
export interface NodeStatus {
  readonly nodeId: string;
  readonly types: readonly TypeStatus[];
}

export interface TypeStatus {
  readonly typeUrl: string;
  /** Empty until all of the type was sent. */
  readonly sentVersion: string;
  /** Empty until all of the type was accepted; equal to `sentVersion` when the Envoy is up to date. */
  readonly ackedVersion: string;
  /** Envoy's words on what it refuses of the present state; empty when nothing. */
  readonly nack: string;
}

/** Result of waiting for all connected Envoys. */
export interface SettleReport {
  /** True when every connected Envoy took, or refused, all of the present state. */
  readonly settled: boolean;
  /** `node type` of what is still under way. */
  readonly unsettled: readonly string[];
}

type AdsCall = ServerDuplexStream<Buffer, Buffer>;

interface Stream {
  readonly call: AdsCall;
  session: DeltaSession | undefined;
  cancelTimer: () => void;
}

/**
 * Delta ADS over grpc-js. Responses are joined from bytes that all streams share, only requests are decoded. Streams wait
 * without an answer until the first snapshot is set.
 */
export class XdsServer {
  readonly #deps: XdsServerDeps;
  readonly #streams = new Set<Stream>();
  readonly #nodes = new Map<string, NodeRecord>();
  readonly #waiters = new Set<() => void>();
  #snapshot: Snapshot | undefined;

  constructor(deps: XdsServerDeps) {
    this.#deps = deps;
  }

  /** Publishes a state to all connected Envoys and to those that connect later. */
  setSnapshot(snapshot: Snapshot): void {
    this.#snapshot = snapshot;
    for (const stream of this.#streams) {
      stream.session?.setTarget(snapshot, this.#deps.clock.nowMs());
      this.#rearm(stream);
    }
    this.#checkWaiters();
  }

  get snapshot(): Snapshot | undefined {
    return this.#snapshot;
  }

  /** Adds the ADS service. The caller owns the server, its port and its limits. */
  addTo(server: Server): void {
    const raw = (bytes: Buffer): Buffer => bytes;
    const method = AggregatedDiscoveryServiceService.deltaAggregatedResources;
    server.addService(
      {
        deltaAggregatedResources: {
          path: method.path,
          requestStream: true,
          responseStream: true,
          requestSerialize: raw,
          requestDeserialize: raw,
          responseSerialize: raw,
          responseDeserialize: raw,
        },
      },
      { deltaAggregatedResources: (call: AdsCall) => this.#open(call) },
    );
  }

  /** One entry per connected Envoy, sorted by node id. */
  status(): NodeStatus[] {
    const nodes: NodeStatus[] = [];
    for (const { session } of this.#streams) {
      if (session === undefined) continue;
      const { node } = session;
      const types = session.status().map((type) => {
        const words = node.rejections
          .filter(({ typeUrl }) => typeUrl === type.typeUrl)
          .map(({ name, words }) => `${name}: ${words}`);
        return { ...type, nack: words.join("; ") };
      });
      nodes.push({ nodeId: node.nodeId, types });
    }
    return nodes.sort((a, b) => (a.nodeId < b.nodeId ? -1 : 1));
  }

  /** What connected Envoys refuse of the present state. */
  findings(): Finding[] {
    const nodes = new Set([...this.#streams].flatMap(({ session }) => (session === undefined ? [] : [session.node])));
    return [...nodes].flatMap((node) => node.findings());
  }

  /**
   * Waits until all connected Envoys took or refused all of the present state, at most `timeoutMs`. With no Envoy
   * connected it is settled at once.
   */
  whenSettled(timeoutMs: number): Promise<SettleReport> {
    return new Promise((resolve) => {
      const finish = (): void => {
        this.#waiters.delete(check);
        cancel();
        const unsettled = this.#unsettled();
        resolve({ settled: unsettled.length === 0, unsettled });
      };
      const check = (): void => {
        if (this.#unsettled().length === 0) finish();
      };
      const cancel = this.#deps.clock.schedule(timeoutMs, finish);
      this.#waiters.add(check);
      check();
    });
  }

  /** Ends all streams. Envoys keep what they have and reconnect. */
  close(): void {
    for (const stream of [...this.#streams]) {
      stream.call.end();
      this.#drop(stream);
    }
    for (const check of this.#waiters) check();
  }

  #unsettled(): string[] {
    return [...this.#streams].flatMap(({ session }) =>
      session === undefined ? [] : session.unsettledTypes().map((type) => `${session.node.nodeId} ${type}`),
    );
  }

  #open(call: AdsCall): void {
    if (this.#streams.size >= STREAMS_MAX) {
      fail(
        call,
        GrpcStatus.RESOURCE_EXHAUSTED,
        `this control plane serves ${STREAMS_MAX} streams already; try again later`,
      );
      return;
    }
    const stream: Stream = { call, session: undefined, cancelTimer: () => undefined };
    this.#streams.add(stream);
    this.#deps.metrics?.streams(this.#streams.size);
    call.on("data", (bytes: Buffer) => this.#receive(stream, bytes));
    call.on("end", () => {
      call.end();
      this.#drop(stream);
    });
    call.on("cancelled", () => this.#drop(stream));
    call.on("close", () => this.#drop(stream));
    call.on("error", () => this.#drop(stream));
  }

  #receive(stream: Stream, bytes: Buffer): void {
    if (!this.#streams.has(stream)) return;
    try {
      const request = DeltaDiscoveryRequest.decode(bytes);
      const session = stream.session ?? this.#begin(stream, request);
      session.request(request, this.#deps.clock.nowMs());
      this.#rearm(stream);
      this.#checkWaiters();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#deps.logger.warn({ node: stream.session?.node.nodeId, problem: message }, "ADS stream ended: bad request");
      this.#drop(stream);
      fail(stream.call, GrpcStatus.INVALID_ARGUMENT, message);
    }
  }

  /** The node comes with a stream's first request and counts for the stream's life. */
  #begin(stream: Stream, request: DeltaDiscoveryRequest): DeltaSession {
    const nodeId = request.node?.id ?? "";
    if (nodeId === "" || nodeId.length > NODE_ID_MAX_CHARS) {
      throw new Error(
        `node.id is missing or longer than ${NODE_ID_MAX_CHARS} characters; start Envoy with --service-node`,
      );
    }
    const node = this.#nodeRecord(nodeId);
    // An Envoy that holds nothing has just started.
    if (Object.keys(request.initialResourceVersions).length === 0) node.forgetRejections();
    const session = this.#session(stream, node);
    stream.session = session;
    if (this.#snapshot !== undefined) session.setTarget(this.#snapshot, this.#deps.clock.nowMs());
    this.#deps.logger.info({ node: nodeId }, "Envoy connected");
    return session;
  }

  #session(stream: Stream, node: NodeRecord): DeltaSession {
    const { metrics, logger } = this.#deps;
    return new DeltaSession(node, {
      write: (outgoing) => this.#write(stream, node, outgoing),
      accepted: (type, tookMs) => metrics?.accepted(shortName(type), tookMs),
      refused: (type, items, words) => {
        metrics?.refused(shortName(type));
        const names = items.map((item) => item.name);
        logger.warn({ node: node.nodeId, type: shortName(type), names, words }, "Envoy refused a response");
      },
      waitExpired: (type) => {
        metrics?.waitExpired(shortName(type));
        logger.warn({ node: node.nodeId, type: shortName(type) }, "sent without waiting longer for other resources");
      },
    });
  }

  #write(stream: Stream, node: NodeRecord, outgoing: Outgoing): void {
    const { typeUrl, nonce, systemVersion, items } = outgoing;
    const bytes = encodeDeltaResponse({
      typeUrl,
      nonce,
      systemVersion,
      resources: items.flatMap((item) => (item.resource === undefined ? [] : [item.resource])),
      removed: items.filter((item) => item.version === REMOVED).map((item) => item.name),
      identifier: this.#deps.identifier ?? "servemesh",
    });
    const names = items.map((item) => (item.version === REMOVED ? `-${item.name}` : item.name));
    this.#deps.logger.info(
      { node: node.nodeId, type: shortName(typeUrl), nonce, names, bytes: bytes.length },
      "xDS response",
    );
    this.#deps.metrics?.sent(shortName(typeUrl), items.length, bytes.length);
    // Never more than one response per type is under way, so a slow reader cannot make this buffer grow.
    stream.call.write(bytes);
  }

  /** Oldest first out, so that made-up node ids cannot fill the memory. */
  #nodeRecord(nodeId: string): NodeRecord {
    const record = this.#nodes.get(nodeId) ?? new NodeRecord(nodeId);
    this.#nodes.delete(nodeId);
    this.#nodes.set(nodeId, record);
    const oldest = this.#nodes.keys().next().value;
    if (this.#nodes.size > NODES_MAX && oldest !== undefined) this.#nodes.delete(oldest);
    return record;
  }

  #rearm(stream: Stream): void {
    stream.cancelTimer();
    stream.cancelTimer = () => undefined;
    const nowMs = this.#deps.clock.nowMs();
    const wakeAtMs = stream.session?.wakeAtMs(nowMs);
    if (wakeAtMs === undefined) return;
    const delayMs = Math.max(1, Math.ceil(wakeAtMs - nowMs));
    stream.cancelTimer = this.#deps.clock.schedule(delayMs, () => {
      stream.session?.advance(this.#deps.clock.nowMs());
      this.#rearm(stream);
      this.#checkWaiters();
    });
  }

  #drop(stream: Stream): void {
    if (!this.#streams.delete(stream)) return;
    stream.cancelTimer();
    this.#deps.metrics?.streams(this.#streams.size);
    if (stream.session !== undefined)
      this.#deps.logger.info({ node: stream.session.node.nodeId }, "Envoy disconnected");
    this.#checkWaiters();
  }

  #checkWaiters(): void {
    for (const check of [...this.#waiters]) check();
  }
}

function shortName(typeUrl: string): string {
  return typeUrl.slice(typeUrl.lastIndexOf(".") + 1);
}

function fail(call: AdsCall, code: GrpcStatus, details: string): void {
  call.emit("error", { code, details });
}
