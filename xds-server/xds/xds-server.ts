import { status as GrpcStatus, type Server } from "@grpc/grpc-js";
import type { Clock } from "../platform/clock.js";
import type { Finding } from "../registry/state.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import type { StreamObserver } from "./csds-node-book.js";
import { AskReader, type DiscoveryAsk, holdsNothing, namesIn } from "./discovery-ask.js";
import { type DiscoveryCall, type DiscoveryMethod, discoveryServices } from "./discovery-services.js";
import { NodeRecord, REMOVED } from "./node-record.js";
import { PushRound } from "./push-round.js";
import { RecentStates } from "./recent-states.js";
import { SharedResponses } from "./shared-responses.js";
import { type Outgoing, StreamSession } from "./stream-session.js";
import type { XdsMetrics } from "./xds-metrics.js";

/** Open streams at a time; one more is told to come back later. Without ADS an Envoy has one for each of its clusters. */
const STREAMS_MAX = 10_000;
/** Envoys whose refusals are remembered. */
const NODES_MAX = 4_096;
const NODE_ID_MAX_CHARS = 256;

const NO_TIMER = (): void => undefined;

/** The part of pino that is used here. */
export interface XdsLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  /** Absent means that every level is logged. */
  isLevelEnabled?(level: string): boolean;
}

export interface XdsServerDeps {
  readonly clock: Pick<Clock, "nowMs" | "schedule">;
  readonly logger: XdsLogger;
  readonly metrics?: XdsMetrics;
  /** Told of streams and their answers, for the views of people. */
  readonly observer?: StreamObserver;
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

interface Stream {
  readonly call: DiscoveryCall;
  readonly method: DiscoveryMethod;
  session: StreamSession | undefined;
  cancelTimer: () => void;
}

/**
 * Discovery over grpc-js: ADS and the per-type services, each as state of the world and as delta. Responses are joined from bytes that all streams share, only requests are decoded. Streams wait
 * without an answer until the first snapshot is set.
 */
export class XdsServer {
  readonly #deps: XdsServerDeps;
  readonly #streams = new Set<Stream>();
  readonly #nodes = new Map<string, NodeRecord>();
  readonly #waiters = new Set<() => void>();
  readonly #recent = new RecentStates();
  readonly #responses: SharedResponses;
  readonly #reader = new AskReader();
  readonly #round: PushRound<Stream>;
  #snapshot: Snapshot | undefined;

  constructor(deps: XdsServerDeps) {
    this.#deps = deps;
    this.#responses = new SharedResponses(deps.identifier ?? "servemesh");
    this.#round = new PushRound(
      deps.clock,
      (stream) => this.#retarget(stream),
      () => this.#checkWaiters(),
    );
  }

  /** Publishes a state to all connected Envoys and to those that connect later. */
  setSnapshot(snapshot: Snapshot): void {
    this.#snapshot = snapshot;
    this.#recent.remember(snapshot);
    this.#responses.forget();
    this.#round.start(this.#streams);
  }

  get snapshot(): Snapshot | undefined {
    return this.#snapshot;
  }

  /** Adds the discovery services. The caller owns the server, its port and its limits. */
  addTo(server: Server): void {
    for (const { definition, methods } of discoveryServices()) {
      const handlers = Object.entries(methods).map(([key, method]) => {
        return [key, (call: DiscoveryCall) => this.#open(call, method)] as const;
      });
      server.addService(definition, Object.fromEntries(handlers));
    }
  }

  /** One entry per connected Envoy, over all its streams, sorted by node id. */
  status(): NodeStatus[] {
    const nodes = new Map<string, TypeStatus[]>();
    for (const { session } of this.#streams) {
      if (session === undefined) continue;
      const { node } = session;
      const types = session.status().map((type) => {
        const words = node.rejections
          .filter(({ typeUrl }) => typeUrl === type.typeUrl)
          .map(({ name, words }) => `${name}: ${words}`);
        return { ...type, nack: words.join("; ") };
      });
      nodes.set(node.nodeId, [...(nodes.get(node.nodeId) ?? []), ...types]);
    }
    return [...nodes].map(([nodeId, types]) => ({ nodeId, types })).sort((a, b) => (a.nodeId < b.nodeId ? -1 : 1));
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
    return [...this.#streams].flatMap((stream) => {
      const { session } = stream;
      if (session === undefined) return [];
      const isBehind = this.#round.isBehind(stream);
      const types = isBehind ? session.status().map(({ typeUrl }) => typeUrl) : session.unsettledTypes();
      return types.map((type) => `${session.node.nodeId} ${type}`);
    });
  }

  #retarget(stream: Stream): void {
    if (this.#snapshot !== undefined) stream.session?.setTarget(this.#snapshot, this.#deps.clock.nowMs());
    this.#rearm(stream);
  }

  #open(call: DiscoveryCall, method: DiscoveryMethod): void {
    if (this.#streams.size >= STREAMS_MAX) {
      fail(
        call,
        GrpcStatus.RESOURCE_EXHAUSTED,
        `this control plane serves ${STREAMS_MAX} streams already; try again later`,
      );
      return;
    }
    const stream: Stream = { call, method, session: undefined, cancelTimer: NO_TIMER };
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
      const ask = checkedAsk(this.#reader.read(stream.method.protocol, bytes), stream.method);
      const session = stream.session ?? this.#begin(stream, ask);
      // What it acknowledges makes room for the newest state, not for one between.
      if (this.#round.take(stream)) this.#retarget(stream);
      session.request(ask, this.#deps.clock.nowMs());
      this.#rearm(stream);
      this.#checkWaiters();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#deps.logger.warn({ node: stream.session?.node.nodeId, problem: message }, "xDS stream ended: bad request");
      this.#drop(stream);
      fail(stream.call, GrpcStatus.INVALID_ARGUMENT, message);
    }
  }

  /** The node comes with a stream's first request and counts for the stream's life. */
  #begin(stream: Stream, ask: DiscoveryAsk): StreamSession {
    const { nodeId } = ask;
    if (nodeId === "" || nodeId.length > NODE_ID_MAX_CHARS) {
      throw new Error(
        `node.id is missing or longer than ${NODE_ID_MAX_CHARS} characters; start Envoy with --service-node`,
      );
    }
    const node = this.#nodeRecord(nodeId);
    // An Envoy that holds nothing has just started, but a stream for one type more tells nothing about the others.
    if (holdsNothing(ask)) {
      if (stream.method.typeUrl === undefined) node.forgetRejections();
      else node.forgetRejectionsOf(stream.method.typeUrl, namesIn(ask));
    }
    const session = this.#session(stream, node);
    stream.session = session;
    this.#deps.observer?.began(session);
    if (this.#snapshot !== undefined) session.setTarget(this.#snapshot, this.#deps.clock.nowMs());
    this.#deps.logger.info({ node: nodeId }, "Envoy connected");
    return session;
  }

  #session(stream: Stream, node: NodeRecord): StreamSession {
    const { metrics, logger, observer } = this.#deps;
    const { protocol, typeUrl } = stream.method;
    const settings = {
      protocol,
      isAlone: typeUrl !== undefined,
      recall: this.#recent.recall.bind(this.#recent),
      compose: this.#responses.compose.bind(this.#responses, protocol),
    };
    const session: StreamSession = new StreamSession(node, settings, {
      write: (outgoing) => this.#write(stream, node, outgoing),
      accepted: (type, tookMs) => {
        metrics?.accepted(shortName(type), tookMs);
        observer?.accepted(session, type, tookMs);
      },
      refused: (type, items, words) => {
        metrics?.refused(shortName(type), words);
        const names = items.map((item) => item.name);
        observer?.refused(session, type, names, words);
        logger.warn({ node: node.nodeId, type: shortName(type), names, words }, "Envoy refused a response");
      },
      waitExpired: (type) => {
        metrics?.waitExpired(shortName(type));
        logger.warn({ node: node.nodeId, type: shortName(type) }, "sent without waiting longer for other resources");
      },
    });
    return session;
  }

  #write(stream: Stream, node: NodeRecord, { typeUrl, nonce, items, bytes }: Outgoing): void {
    const type = shortName(typeUrl);
    const { logger, metrics } = this.#deps;
    // The names of a line that nobody reads would cost more than the push itself.
    if (logger.isLevelEnabled?.("info") ?? true) {
      const names = items.map((item) => (item.version === REMOVED ? `-${item.name}` : item.name));
      logger.info({ node: node.nodeId, type, nonce, names, bytes: bytes.length }, "xDS response");
    }
    metrics?.sent(type, items.length, bytes.length);
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
    stream.cancelTimer = NO_TIMER;
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
    this.#round.take(stream);
    stream.cancelTimer();
    this.#deps.metrics?.streams(this.#streams.size);
    if (stream.session !== undefined) {
      this.#deps.observer?.ended(stream.session);
      this.#deps.logger.info({ node: stream.session.node.nodeId }, "Envoy disconnected");
    }
    this.#checkWaiters();
  }

  #checkWaiters(): void {
    if (this.#waiters.size === 0) return;
    for (const check of [...this.#waiters]) check();
  }
}

function shortName(typeUrl: string): string {
  return typeUrl.slice(typeUrl.lastIndexOf(".") + 1);
}

/** @throws Error for a type that the stream does not carry; the message tells the client what is wrong */
function checkedAsk(ask: DiscoveryAsk, { typeUrl }: DiscoveryMethod): DiscoveryAsk {
  if (typeUrl === undefined) {
    if (ask.typeUrl === "") throw new Error("type_url is missing; an aggregated stream carries all types, so name one");
    return ask;
  }
  // The method implies the type.
  if (ask.typeUrl !== "" && ask.typeUrl !== typeUrl) {
    throw new Error(`type_url is not ${typeUrl}, the only type of this method; leave it out or use ADS`);
  }
  return { ...ask, typeUrl };
}

function fail(call: DiscoveryCall, code: GrpcStatus, details: string): void {
  call.emit("error", { code, details });
}
