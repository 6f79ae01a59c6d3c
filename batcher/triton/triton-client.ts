import {
  type CallOptions,
  Client,
  type ClientOptions,
  credentials,
  Metadata,
  type requestCallback,
  type ServiceError,
} from "@grpc/grpc-js";
import {
  type ModelReadyRequest,
  type ModelReadyResponse,
  type RepositoryModelLoadRequest,
  GRPCInferenceServiceService as SERVICE,
  type ServerReadyRequest,
  type ServerReadyResponse,
} from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import type { Clock } from "../platform/clock.js";
import { WireError } from "../platform/protobuf-wire.js";
import { InferStream, StreamUnimplemented } from "./infer-stream.js";
import { decodeInferResponse, encodeInferRequest } from "./infer-wire.js";
import type { ModelServer, UpstreamAnswer, UpstreamRequest } from "./model-server.js";
import { classifyStatus, UpstreamError } from "./upstream-error.js";

/** Largest answer accepted from the model server. */
const MAX_MESSAGE_BYTES = 256 * 1024 * 1024;

/**
 * No retries: the queue decides what is sent twice. Keepalive finds a server that has stopped without closing; the
 * monitor's calls each second keep Triton from counting the pings as abuse.
 */
const CHANNEL_OPTIONS: ClientOptions = {
  "grpc.enable_retries": 0,
  "grpc.enable_channelz": 0,
  "grpc.enable_http_proxy": 0,
  "grpc.keepalive_time_ms": 5_000,
  "grpc.keepalive_timeout_ms": 2_000,
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.min_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 1_000,
  "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
  "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
  // One connection per client object, so that a closed client leaves nothing behind in a pool.
  "grpc.use_local_subchannel_pool": 1,
};

interface ControlMethod<Q, A> {
  readonly path: string;
  readonly requestSerialize: (value: Q) => Buffer;
  readonly responseDeserialize: (value: Buffer) => A;
}

const same = (bytes: Buffer): Buffer => bytes;

/**
 * A Triton (or another KServe v2 server that answers raw contents) at one address, for one model version. Batches go over
 * long-lived streams, as many as there ever were batches in flight at once. What a stream refuses is sent once more as a unary
 * call, because only that tells a status; a server without streams gets unary calls from then on.
 */
export class TritonClient implements ModelServer {
  private readonly client: Client;
  private readonly modelVersion: string;
  private readonly idleStreams: InferStream[] = [];
  private readonly busyStreams = new Set<InferStream>();
  private streams = true;

  /** @param address `host:port` of the gRPC endpoint; plain text, so loopback */
  constructor(
    address: string,
    private readonly modelName: string,
    modelVersion: bigint,
    private readonly clock: Clock,
  ) {
    this.modelVersion = modelVersion.toString();
    this.client = new Client(address, credentials.createInsecure(), CHANNEL_OPTIONS);
  }

  async infer(request: UpstreamRequest, deadlineAtMs: number): Promise<UpstreamAnswer> {
    const message = encodeInferRequest(this.modelName, this.modelVersion, request);
    const answer = this.streams
      ? await this.inferByStream(message, deadlineAtMs)
      : await this.inferByCall(message, deadlineAtMs);
    try {
      return decodeInferResponse(answer);
    } catch (error) {
      if (error instanceof WireError) throw new UpstreamError("failed", `the model server's answer: ${error.message}`);
      throw error;
    }
  }

  private async inferByStream(message: Buffer, deadlineAtMs: number): Promise<Buffer> {
    this.remainingMs(deadlineAtMs);
    const stream = this.takeStream();
    try {
      return await stream.infer(message, deadlineAtMs);
    } catch (error) {
      if (error instanceof UpstreamError) throw error;
      if (error instanceof StreamUnimplemented) this.streams = false;
      return this.inferByCall(message, deadlineAtMs);
    } finally {
      this.busyStreams.delete(stream);
      if (!stream.ended) this.idleStreams.push(stream);
    }
  }

  /** The one that was used last, so that those of a past peak stay quiet; a new one when all are busy. */
  private takeStream(): InferStream {
    let stream = this.idleStreams.pop();
    while (stream?.ended === true) stream = this.idleStreams.pop();
    stream ??= new InferStream(this.client, this.clock);
    this.busyStreams.add(stream);
    return stream;
  }

  private inferByCall(message: Buffer, deadlineAtMs: number): Promise<Buffer> {
    return this.call<Buffer>(deadlineAtMs, (options, done) => {
      const path = SERVICE.modelInfer.path;
      this.client.makeUnaryRequest(path, same, same, message, new Metadata(), options, done);
    });
  }

  async ready(deadlineAtMs: number): Promise<boolean> {
    const server = await this.control<ServerReadyRequest, ServerReadyResponse>(SERVICE.serverReady, {}, deadlineAtMs);
    if (!server.ready) return false;
    const request = { name: this.modelName, version: this.modelVersion };
    return (await this.control<ModelReadyRequest, ModelReadyResponse>(SERVICE.modelReady, request, deadlineAtMs)).ready;
  }

  async load(deadlineAtMs: number): Promise<void> {
    const request = { repositoryName: "", modelName: this.modelName, parameters: {} };
    await this.control<RepositoryModelLoadRequest, unknown>(SERVICE.repositoryModelLoad, request, deadlineAtMs);
  }

  close(): void {
    for (const stream of [...this.idleStreams, ...this.busyStreams]) stream.close();
    this.client.close();
  }

  private control<Q, A>(method: ControlMethod<Q, A>, request: Q, deadlineAtMs: number): Promise<A> {
    return this.call<A>(deadlineAtMs, (options, done) => {
      const { path, requestSerialize, responseDeserialize } = method;
      this.client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, new Metadata(), options, done);
    });
  }

  /** Every unary call goes through here, so none can leave without a deadline, or after it. */
  private async call<A>(
    deadlineAtMs: number,
    start: (options: CallOptions, done: requestCallback<A>) => void,
  ): Promise<A> {
    const remainingMs = this.remainingMs(deadlineAtMs);
    return new Promise((resolve, reject) => {
      start({ deadline: this.clock.wallMs() + remainingMs }, (error: ServiceError | null, answer?: A) => {
        if (error !== null) reject(classifyStatus(error.code, error.details));
        else if (answer === undefined) reject(new UpstreamError("failed", "the model server sent no message"));
        else resolve(answer);
      });
    });
  }

  /** @throws UpstreamError when no time is left, Error when there is no deadline at all */
  private remainingMs(deadlineAtMs: number): number {
    const remainingMs = deadlineAtMs - this.clock.nowMs();
    if (!Number.isFinite(remainingMs)) throw new Error("a call to the model server without a deadline");
    if (remainingMs <= 0) throw new UpstreamError("deadline", "the deadline passed before the call");
    return remainingMs;
  }
}
