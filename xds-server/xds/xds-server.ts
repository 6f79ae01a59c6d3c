import type { Server } from "@grpc/grpc-js";
import type { Clock } from "../platform/clock.js";
import type { Finding } from "../registry/state.js";
import type { ResourceType } from "../snapshot/resource-types.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import type { StreamObserver } from "./csds-node-book.js";
import { AskReader, type DiscoveryAsk, holdsNothing, namesIn } from "./discovery-ask.js";
import { type DiscoveryCall, type DiscoveryMethod, discoveryServices, failCall } from "./discovery-services.js";
import { GroupDeliveries, type GroupState, type Member } from "./group-deliveries.js";
import { type AuthorizeNode, admitNode, refusalCode } from "./node-admission.js";
import type { NodeIdentity } from "./node-groups.js";
import { NodeRecord, REMOVED } from "./node-record.js";
import { PushRound } from "./push-round.js";
import { SharedResponses } from "./shared-responses.js";
import { type AdmissionSettings, StreamAdmission } from "./stream-admission.js";
import { StreamAge, type StreamAgeSettings } from "./stream-age.js";
import { type Outgoing, StreamSession } from "./stream-session.js";
import type { ConnectionCounts, ConnectionMetrics, StreamEnd, XdsMetrics } from "./xds-metrics.js";

/** Envoys whose refusals are remembered. */
const NODES_MAX = 4_096;

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
  readonly connectionMetrics?: ConnectionMetrics;
  /** Told of streams and their answers, for the views of people. */
  readonly observer?: StreamObserver;
  /** Name of this control plane in its responses. */
  readonly identifier?: string;
  /** Judges the certificates of clients; absent where connections are plain text. */
  readonly authorize?: AuthorizeNode;
  /** How many new streams are taken, and how fast; what is absent is as in `ADMISSION`. */
  readonly admission?: Partial<AdmissionSettings>;
  /** How old streams become; what is absent is as in `STREAM_AGE`. */
  readonly streamAge?: Partial<StreamAgeSettings>;
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

interface Stream extends Member {
  readonly call: DiscoveryCall;
  readonly method: DiscoveryMethod;
  readonly age: StreamAge;
  identity: NodeIdentity | undefined;
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
  readonly #groups: GroupDeliveries<Stream>;
  readonly #responses: SharedResponses;
  readonly #reader = new AskReader();
  readonly #round: PushRound<Stream>;
  readonly #admission: StreamAdmission;
  #isPublished = false;

  constructor(deps: XdsServerDeps) {
    this.#deps = deps;
    this.#responses = new SharedResponses(deps.identifier ?? "servemesh");
    this.#admission = new StreamAdmission(deps.clock, deps.admission ?? {}, () => this.#streams.size);
    this.#round = new PushRound(
      deps.clock,
      (stream) => this.#retarget(stream),
      () => this.#checkWaiters(),
    );
    this.#groups = new GroupDeliveries(deps.clock, this.#streams, (streams) => this.#round.start(streams));
  }

  /** Publishes one state to all connected Envoys and to those that connect later, whoever they are. */
  setSnapshot(snapshot: Snapshot): void {
    this.#responses.forget();
    this.#isPublished = true;
    this.#groups.publishToAll(snapshot);
  }

  /** Publishes the state of each group of Envoys; see `GroupDeliveries` for who gets what, and when. */
  publish(states: readonly GroupState[]): void {
    this.#responses.forget();
    this.#isPublished = true;
    this.#groups.publish(states);
  }

  /** True once there is a state to serve. */
  get isPublished(): boolean {
    return this.#isPublished;
  }

  /** The newest state, of the first group if there are several; undefined when there is none. */
  get snapshot(): Snapshot | undefined {
    return this.#groups.all[0]?.latest;
  }

  /** Whether any group is told of a resource. */
  has(typeUrl: ResourceType, name: string): boolean {
    return this.#groups.all.some(({ latest }) => latest?.byType[typeUrl].has(name));
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
    return [...[...nodes].flatMap((node) => node.findings()), ...this.#groups.findings()];
  }

  /**
   * Waits until all connected Envoys took or refused all of the present state, at most `timeoutMs`. With no Envoy
   * connected it is settled at once; Envoys that fit no group are not waited for.
   * @param nodeIds waits for these alone, of those that are connected
   */
  whenSettled(timeoutMs: number, nodeIds?: ReadonlySet<string>): Promise<SettleReport> {
    return new Promise((resolve) => {
      const finish = (): void => {
        this.#waiters.delete(check);
        cancel();
        const unsettled = this.#unsettled(nodeIds);
        resolve({ settled: unsettled.length === 0, unsettled });
      };
      const check = (): void => {
        if (this.#unsettled(nodeIds).length === 0) finish();
      };
      const cancel = this.#deps.clock.schedule(timeoutMs, finish);
      this.#waiters.add(check);
      check();
    });
  }

  /** Streams now. */
  counts(): ConnectionCounts {
    return {
      open: this.#streams.size,
      waiting: this.#admission.waitingCount,
      behind: this.#round.behindCount,
    };
  }

  /** Ends all streams and takes no new ones. Envoys keep what they have. */
  close(): void {
    this.#admission.close();
    this.endStreams();
  }

  /** Ends all streams. Envoys keep what they have and reconnect. */
  endStreams(): void {
    for (const stream of [...this.#streams]) this.#end(stream, "closing");
    this.#checkWaiters();
  }

  #unsettled(nodeIds?: ReadonlySet<string>): string[] {
    return [...this.#streams].flatMap((stream) => {
      const { session, delivery } = stream;
      if (session === undefined) return [];
      if (nodeIds !== undefined && !nodeIds.has(session.node.nodeId)) return [];
      // One that fits no group is told nothing, and is a finding instead.
      if (this.isPublished && delivery === undefined) return [];
      const isBehind = this.#round.isBehind(stream);
      const types = isBehind ? session.status().map(({ typeUrl }) => typeUrl) : session.unsettledTypes();
      return types.map((type) => `${session.node.nodeId} ${type}`);
    });
  }

  #retarget(stream: Stream): void {
    const { session } = stream;
    const target = session && stream.delivery?.targetFor(session.node.nodeId);
    if (target !== undefined) session?.setTarget(target, this.#deps.clock.nowMs());
    this.#rearm(stream);
  }

  #open(call: DiscoveryCall, method: DiscoveryMethod): void {
    const leave = this.#admission.ask({
      admit: () => this.#admit(call, method),
      refuse: ({ reason, code, details }) => {
        this.#deps.connectionMetrics?.streamRefused(reason);
        failCall(call, code, details);
      },
    });
    call.on("cancelled", leave);
  }

  /** Nothing of the stream was read before. */
  #admit(call: DiscoveryCall, method: DiscoveryMethod): void {
    const { clock, metrics, streamAge } = this.#deps;
    const age = new StreamAge(clock, streamAge ?? {}, () => this.#end(stream, "age"));
    const stream = this.#newStream(call, method, age);
    this.#streams.add(stream);
    metrics?.streams(this.#streams.size);
    call.on("data", (bytes: Buffer) => this.#receive(stream, bytes));
    call.on("drain", () => this.#resume(stream));
    call.on("end", () => this.#end(stream, "client"));
    call.on("cancelled", () => this.#drop(stream, "client"));
    call.on("close", () => this.#drop(stream, "client"));
    call.on("error", () => this.#drop(stream, "error"));
  }

  #newStream(call: DiscoveryCall, method: DiscoveryMethod, age: StreamAge): Stream {
    const stream: Stream = {
      call,
      method,
      age,
      identity: undefined,
      delivery: undefined,
      session: undefined,
      cancelTimer: NO_TIMER,
      progressOf: (type) => {
        const progress = stream.session?.progressOf(type) ?? "unasked";
        return progress === "taken" && this.#round.isBehind(stream) ? "open" : progress;
      },
    };
    return stream;
  }

  /** What was written has gone out, so there is room for more. */
  #resume(stream: Stream): void {
    if (!this.#streams.has(stream)) return;
    stream.session?.resume(this.#deps.clock.nowMs());
    this.#rearm(stream);
    this.#checkWaiters();
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
      this.#groups.heard(stream);
      this.#checkWaiters();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#deps.logger.warn({ node: stream.session?.node.nodeId, problem: message }, "xDS stream refused");
      this.#drop(stream, "error");
      failCall(stream.call, refusalCode(error), message);
    }
  }

  /** The node comes with a stream's first request and counts for the stream's life. */
  #begin(stream: Stream, ask: DiscoveryAsk): StreamSession {
    const identity = admitNode(stream.call, ask.node, this.#deps.authorize);
    const { id: nodeId } = identity;
    const node = this.#nodeRecord(identity);
    // An Envoy that holds nothing has just started, but a stream for one type more tells nothing about the others.
    if (holdsNothing(ask)) {
      if (stream.method.typeUrl === undefined) node.forgetRejections();
      else node.forgetRejectionsOf(stream.method.typeUrl, namesIn(ask));
    }
    const session = this.#session(stream, node, identity);
    stream.session = session;
    this.#deps.observer?.began(session);
    stream.identity = identity;
    this.#groups.assign(stream);
    if (holdsNothing(ask) && stream.method.typeUrl === undefined) this.#groups.started(stream);
    const target = stream.delivery?.targetFor(nodeId);
    if (target !== undefined) session.setTarget(target, this.#deps.clock.nowMs());
    this.#deps.logger.info({ node: nodeId }, "Envoy connected");
    return session;
  }

  #session(stream: Stream, node: NodeRecord, { limits }: NodeIdentity): StreamSession {
    const { metrics, logger, observer } = this.#deps;
    const { protocol, typeUrl } = stream.method;
    const settings = {
      protocol,
      isAlone: typeUrl !== undefined,
      knowsLimits: limits === "both" || (limits === "delta" && protocol === "delta"),
      recall: (type: ResourceType, version: string) => stream.delivery?.recall(type, version),
      compose: this.#responses.compose.bind(this.#responses, protocol),
    };
    const session: StreamSession = new StreamSession(node, settings, {
      write: (outgoing) => this.#write(stream, node, outgoing),
      canWrite: () => !stream.call.writableNeedDrain,
      accepted: (type, tookMs) => {
        stream.age.acknowledged();
        metrics?.accepted(shortName(type), tookMs);
        observer?.accepted(session, type, tookMs);
      },
      refused: (type, items, words) => {
        metrics?.refused(shortName(type), words);
        const names = items.map((item) => item.name);
        observer?.refused(session, type, names, words);
        this.#groups.refused(stream, type, names, words);
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
    // One response per type is under way, and none is written to a full buffer, so a slow reader cannot make it grow.
    stream.call.write(bytes);
  }

  /**
   * Oldest first out, so that made-up node ids cannot fill the memory. One that is bound to a group is nobody outside it, so
   * that what it refuses under the name of another Envoy is not held against that one.
   */
  #nodeRecord({ id, group }: NodeIdentity): NodeRecord {
    const key = group === undefined ? id : `${group}\n${id}`;
    const record = this.#nodes.get(key) ?? new NodeRecord(id);
    this.#nodes.delete(key);
    this.#nodes.set(key, record);
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

  /** Ends a stream in order: what was written still goes out. */
  #end(stream: Stream, reason: StreamEnd): void {
    stream.call.end();
    this.#drop(stream, reason);
  }

  #drop(stream: Stream, reason: StreamEnd): void {
    if (!this.#streams.delete(stream)) return;
    this.#round.take(stream);
    stream.cancelTimer();
    stream.age.cancel();
    this.#deps.connectionMetrics?.streamEnded(reason);
    this.#deps.metrics?.streams(this.#streams.size);
    this.#groups.ended(stream);
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
