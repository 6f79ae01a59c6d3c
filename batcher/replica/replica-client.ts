import { type ChannelCredentials, type ClientDuplexStream, credentials } from "@grpc/grpc-js";
import {
  type Assignment,
  type ConnectRequest,
  type ConnectResponse,
  type Hello,
  type Load,
  ReplicaServiceClient,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/replica.js";
import { CHANNEL_OPTIONS } from "@servemesh/proto/mesh-credentials";
import type { Clock, Timer } from "../platform/clock.js";
import type { Logger } from "../platform/logger.js";
import { backoffDelayMs } from "./backoff.js";
import { type ReportedState, sameForRouting, sameState } from "./replica-state.js";

export interface ReplicaClientDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  /** In [0, 1). */
  readonly random: () => number;
  /** `host:port` of the control plane. */
  readonly address: string;
  /** Mutual TLS, asked for each new connection; plain text when absent, so the address must be loopback. */
  readonly credentials?: () => ChannelCredentials;
  /** Sent first on every stream. */
  readonly hello: () => Hello;
  readonly state: () => ReportedState;
  readonly load: () => Load;
  readonly assigned: (assignment: Assignment) => void;
  readonly drain: (reason: string) => void;
  /** For metrics. */
  readonly connected: (connected: boolean) => void;
}

const BACKOFF = { firstMs: 100, maxMs: 5_000 };
const LOAD_INTERVAL_MS = 1_000;
/** A stream that lived this long was good, so the next attempt starts over at the first delay. */
const STABLE_AFTER_MS = 10_000;

/**
 * Keeps the stream to the control plane: Hello, then the state whenever it changes and the load each second. The stream
 * is this replica's lease. When it breaks, the batcher goes on with its last assignment and connects again.
 */
export class ReplicaClient {
  private client: ReplicaServiceClient;
  private stream: ClientDuplexStream<ConnectRequest, ConnectResponse> | undefined;
  private sent: ReportedState | undefined;
  private attempt = 0;
  private openedAtMs = 0;
  private retryTimer: Timer | undefined;
  private loadTimer: Timer | undefined;
  private closed = false;

  constructor(private readonly deps: ReplicaClientDeps) {
    this.client = createClient(deps);
  }

  start(): void {
    this.open();
  }

  /** Reports at once what matters for routing; another detail alone goes with the next load report. */
  stateChanged(): void {
    this.report(sameForRouting);
  }

  /**
   * Goes over to a new connection, because another certificate is in force. The control plane ends the old stream once it has
   * the new one, so the endpoint stays.
   */
  renew(): void {
    if (this.closed) return;
    this.retryTimer?.cancel();
    if (this.stream === undefined) this.client.close();
    this.client = createClient(this.deps);
    this.open();
  }

  /** Ends the stream, which takes the endpoint out. */
  close(): void {
    this.closed = true;
    this.retryTimer?.cancel();
    this.loadTimer?.cancel();
    this.stream?.end();
    this.stream?.cancel();
    this.stream = undefined;
    this.client.close();
  }

  private report(same: (a: ReportedState, b: ReportedState) => boolean): void {
    const stream = this.stream;
    if (stream === undefined) return;
    const state = this.deps.state();
    if (this.sent !== undefined && same(this.sent, state)) return;
    this.sent = state;
    stream.write({ message: { $case: "state", value: { ...state } } });
  }

  private open(): void {
    // A stream lives as long as both processes, so it is the one call without a deadline; keepalive watches it.
    const { client } = this;
    const stream = client.connect();
    this.stream = stream;
    this.sent = undefined;
    this.openedAtMs = this.deps.clock.nowMs();
    let over = false;
    const ended = (why: string): void => {
      if (over) return;
      over = true;
      if (client !== this.client) client.close();
      this.lost(stream, why);
    };
    stream.on("data", (response) => this.receive(response));
    stream.on("error", (error: Error) => ended(error.message));
    stream.on("end", () => ended("the control plane ended the stream"));
    stream.write({ message: { $case: "hello", value: this.deps.hello() } });
    this.stateChanged();
    this.scheduleLoad();
  }

  private receive(response: ConnectResponse): void {
    this.deps.connected(true);
    const message = response.message;
    if (message?.$case === "assignment") this.deps.assigned(message.value);
    else if (message?.$case === "drain") this.deps.drain(message.value.reason);
  }

  private lost(stream: ClientDuplexStream<ConnectRequest, ConnectResponse>, why: string): void {
    if (this.stream !== stream || this.closed) return;
    const { clock, logger, random, connected } = this.deps;
    this.stream = undefined;
    this.loadTimer?.cancel();
    stream.cancel();
    connected(false);
    if (clock.nowMs() - this.openedAtMs >= STABLE_AFTER_MS) this.attempt = 0;
    const delayMs = backoffDelayMs(BACKOFF, this.attempt, random());
    this.attempt += 1;
    logger.warn({ why, delayMs: Math.round(delayMs) }, "control plane lost; keeping the last assignment");
    this.retryTimer = clock.schedule(clock.nowMs() + delayMs, () => this.open());
  }

  private scheduleLoad(): void {
    const { clock } = this.deps;
    this.loadTimer?.cancel();
    this.loadTimer = clock.schedule(clock.nowMs() + LOAD_INTERVAL_MS, () => {
      this.report(sameState);
      this.stream?.write({ message: { $case: "load", value: this.deps.load() } });
      this.scheduleLoad();
    });
  }
}

function createClient({ address, credentials: trust }: ReplicaClientDeps): ReplicaServiceClient {
  return new ReplicaServiceClient(address, trust?.() ?? credentials.createInsecure(), {
    ...(trust === undefined ? {} : CHANNEL_OPTIONS),
    "grpc.keepalive_time_ms": 10_000,
    "grpc.keepalive_timeout_ms": 5_000,
    "grpc.enable_http_proxy": 0,
    // Our own back-off decides; the channel's must not add to it.
    "grpc.initial_reconnect_backoff_ms": 50,
    "grpc.min_reconnect_backoff_ms": 50,
    "grpc.max_reconnect_backoff_ms": 500,
    "grpc.use_local_subchannel_pool": 1,
  });
}
