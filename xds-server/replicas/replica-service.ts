import { status as GrpcStatus, type Server, type ServerDuplexStream } from "@grpc/grpc-js";
import {
  type ConnectRequest,
  type ConnectResponse,
  type Hello,
  ReplicaServiceService,
  type State,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/replica.js";
import { ReplicaState } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { Clock } from "../platform/clock.js";
import type { Logger } from "../platform/logger.js";
import type { Registry } from "../registry/registry.js";
import type { Finding } from "../registry/state.js";
import type { AuthorizeBatcher, BatcherRanges } from "../trust/batcher-identity.js";
import { helloProblem } from "./hello.js";
import { ReplicaSession, UNCONFIRMED_MS } from "./replica-session.js";

/** Open streams at a time; one more is told to come back later. */
const STREAMS_MAX = 2_000;
/** A stream that does not introduce itself is ended. */
const HELLO_PATIENCE_MS = 10_000;

export interface ReplicaServiceDeps {
  readonly registry: Registry;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Judges the certificates of batchers; absent where connections are plain text. */
  readonly authorize?: AuthorizeBatcher;
  /** Addresses that batchers may register besides their connection's own; none by default. */
  readonly ranges?: BatcherRanges;
}

type ReplicaCall = ServerDuplexStream<ConnectRequest, ConnectResponse>;

interface Stream {
  readonly call: ReplicaCall;
  session: ReplicaSession | undefined;
  cancelTimer: () => void;
  /** The batcher does not read what was sent. */
  isFull: boolean;
}

/**
 * The other end of the batchers' streams. A stream is a replica's lease: while it is open the registry has the replica's
 * record, and when it breaks the record goes at once. When this process merely stops, records stay, and count as
 * unconfirmed for 30 s from the next start on.
 */
export class ReplicaService {
  readonly #deps: ReplicaServiceDeps;
  readonly #streams = new Set<Stream>();
  readonly #stopListening: () => void;
  #isClosing = false;

  constructor(deps: ReplicaServiceDeps) {
    this.#deps = deps;
    this.#stopListening = deps.registry.onChange(() => {
      for (const { session } of this.#streams) session?.sync();
    });
  }

  /** Adds the service. The caller owns the server, its port and its limits. */
  addTo(server: Server): void {
    server.addService(ReplicaServiceService, { connect: (call: ReplicaCall) => this.#open(call) });
  }

  /** Connected batchers, with the load that they told last. */
  get sessions(): readonly ReplicaSession[] {
    return [...this.#streams].flatMap(({ session }) => (session === undefined ? [] : [session]));
  }

  /** Replicas that are endpoints although nobody has heard of them since this control plane started. */
  findings(): Finding[] {
    const connected = new Set(this.sessions.map(({ hello }) => hello.replicaId));
    return [...this.#deps.registry.state.replicas.values()]
      .filter(({ value }) => !connected.has(value.id))
      .sort(({ value: a }, { value: b }) => (a.id < b.id ? -1 : 1))
      .map(({ value }) => ({
        severity: "warning",
        subject: `replicas/${value.model}/${value.version}/${value.id}`,
        message: `its batcher at ${value.address} has not reconnected since the control plane started; it is taken out ${UNCONFIRMED_MS / 1000} s after the start`,
      }));
  }

  /** Ends all streams and keeps the records. Batchers go on with their last assignment and reconnect. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#stopListening();
    const streams = [...this.#streams];
    this.#streams.clear();
    for (const stream of streams) {
      stream.cancelTimer();
      stream.call.end();
    }
    await Promise.all(streams.map(({ session }) => session?.stop()));
  }

  #open(call: ReplicaCall): void {
    const stream: Stream = { call, session: undefined, cancelTimer: () => undefined, isFull: false };
    const ended = (): void => this.#ended(stream);
    call.on("error", ended);
    if (this.#isClosing || this.#streams.size >= STREAMS_MAX) {
      const why = this.#isClosing
        ? "this control plane is stopping"
        : `this control plane has ${STREAMS_MAX} streams already`;
      fail(call, GrpcStatus.UNAVAILABLE, `${why}; try again later`);
      return;
    }
    this.#streams.add(stream);
    stream.cancelTimer = this.#deps.clock.schedule(HELLO_PATIENCE_MS, () =>
      this.#refuse(stream, GrpcStatus.DEADLINE_EXCEEDED, "no hello came within 10 s; send it first"),
    );
    call.on("data", (request: ConnectRequest) => this.#receive(stream, request));
    call.on("drain", () => {
      stream.isFull = false;
      stream.session?.sync();
    });
    call.on("end", () => {
      call.end();
      ended();
    });
    call.on("cancelled", ended);
    call.on("close", ended);
  }

  #receive(stream: Stream, { message }: ConnectRequest): void {
    if (!this.#streams.has(stream)) return;
    if (message === undefined) return;
    if (message.$case === "hello") this.#introduce(stream, message.value);
    else if (stream.session === undefined) {
      this.#refuse(stream, GrpcStatus.INVALID_ARGUMENT, `${message.$case} came before hello; send hello first`);
    } else if (message.$case === "load") stream.session.tellLoad(message.value);
    else this.#tellState(stream, stream.session, message.value);
  }

  #introduce(stream: Stream, hello: Hello): void {
    const { authorize, ranges } = this.#deps;
    const isAllowed = (ip: string): boolean => ranges?.includes(ip) ?? false;
    const problem =
      stream.session === undefined
        ? helloProblem(hello, stream.call.getPeer(), isAllowed)
        : "hello came twice; open a new stream";
    if (problem !== undefined) {
      this.#refuse(stream, GrpcStatus.INVALID_ARGUMENT, problem);
      return;
    }
    const refusal = authorize?.(stream.call, hello.model);
    if (refusal !== undefined) {
      this.#refuse(stream, GrpcStatus.PERMISSION_DENIED, refusal);
      return;
    }
    const rival = [...this.#streams].find(({ session }) => session !== undefined && isRival(session.hello, hello));
    const before = rival?.session;
    if (before !== undefined && !isSameBatcher(before.hello, hello)) {
      this.#refuse(stream, GrpcStatus.ALREADY_EXISTS, rivalProblem(before.hello, hello));
      return;
    }
    if (rival !== undefined) this.#replace(rival);
    stream.cancelTimer();
    this.#deps.logger.info({ ...namesOf(hello), address: hello.address }, "batcher connected");
    stream.session = new ReplicaSession(hello, before, {
      registry: this.#deps.registry,
      clock: this.#deps.clock,
      send: (response) => this.#send(stream, response),
      refuse: (reason, text) =>
        this.#refuse(stream, reason === "bad_input" ? GrpcStatus.INVALID_ARGUMENT : GrpcStatus.UNAVAILABLE, text),
    });
    stream.session.sync();
  }

  #tellState(stream: Stream, session: ReplicaSession, state: State): void {
    if (state.state === ReplicaState.REPLICA_STATE_UNSPECIFIED || ReplicaState[state.state] === undefined) {
      const text = `state.state is ${state.state} but must be one of REPLICA_STATE_STARTING to REPLICA_STATE_FAILED`;
      this.#refuse(stream, GrpcStatus.INVALID_ARGUMENT, text);
      return;
    }
    // A starting batcher tells a new detail each second.
    const level = session.told?.state === state.state ? "debug" : "info";
    const fields = { ...namesOf(session.hello), state: ReplicaState[state.state], detail: state.detail };
    this.#deps.logger[level](fields, "batcher state");
    session.tellState(state);
  }

  #send(stream: Stream, response: ConnectResponse): boolean {
    if (stream.isFull || !this.#streams.has(stream)) return false;
    stream.isFull = !stream.call.write(response);
    return true;
  }

  /** The same batcher is back; its old connection is dead, or will be in a moment. Its session lives on in the new one. */
  #replace(stream: Stream): void {
    this.#streams.delete(stream);
    stream.cancelTimer();
    fail(stream.call, GrpcStatus.ABORTED, "a newer stream of this replica replaces this one");
  }

  #refuse(stream: Stream, code: GrpcStatus, text: string): void {
    if (!this.#streams.has(stream)) return;
    const who = stream.session === undefined ? {} : namesOf(stream.session.hello);
    this.#deps.logger.warn({ ...who, peer: stream.call.getPeer(), problem: text }, "batcher refused");
    this.#ended(stream);
    fail(stream.call, code, text);
  }

  #ended(stream: Stream): void {
    if (!this.#streams.delete(stream)) return;
    stream.cancelTimer();
    const { session } = stream;
    if (session === undefined) return;
    const { logger } = this.#deps;
    logger.info(namesOf(session.hello), "batcher disconnected");
    session.end().catch((error: unknown) => {
      logger.error({ ...namesOf(session.hello), err: error }, "the record of a replica that is gone cannot be deleted");
    });
  }
}

function namesOf(hello: Hello): { replica: string; version: string } {
  return { replica: hello.replicaId, version: `${hello.model}:${hello.version}` };
}

/** Two batchers cannot share an id, because of the record, nor an address, because one port has one listener. */
function isRival(a: Hello, b: Hello): boolean {
  return a.replicaId === b.replicaId || a.address === b.address;
}

function isSameBatcher(a: Hello, b: Hello): boolean {
  return a.replicaId === b.replicaId && a.address === b.address;
}

function rivalProblem(before: Hello, hello: Hello): string {
  return before.replicaId === hello.replicaId
    ? `hello.replica_id ${hello.replicaId} is in use by the batcher at ${before.address}; give each batcher its own --replica-id`
    : `hello.address ${hello.address} is in use by replica ${before.replicaId}; wait until its stream has ended, or choose another port`;
}

function fail(call: ReplicaCall, code: GrpcStatus, details: string): void {
  call.emit("error", { code, details });
}
