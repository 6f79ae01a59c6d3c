import {
  type Client,
  type ClientDuplexStream,
  Metadata,
  type ServiceError,
  type StatusObject,
  status,
} from "@grpc/grpc-js";
import { GRPCInferenceServiceService as SERVICE } from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import type { Clock, Timer } from "../platform/clock.js";
import { WireReader } from "../platform/protobuf-wire.js";
import { classifyStatus, UpstreamError } from "./upstream-error.js";

/** Field numbers of inference.ModelStreamInferResponse. */
const RESPONSE = { errorMessage: 1, inferResponse: 2 } as const;

const same = (bytes: Buffer): Buffer => bytes;

/** The server answered on the stream with a text in place of an answer; a stream carries no status code to sort it by. */
export class StreamRefusal extends Error {
  override readonly name = "StreamRefusal";
}

/** The server has no ModelStreamInfer. */
export class StreamUnimplemented extends Error {
  override readonly name = "StreamUnimplemented";
}

interface Pending {
  resolve(answer: Buffer): void;
  reject(error: Error): void;
}

/**
 * One long-lived ModelStreamInfer call with at most one message in flight. Opening a call is the larger part of what a hop costs
 * in Node, and this spares it. Once it has ended, for whatever reason, it stays ended; open another one.
 */
export class InferStream {
  private readonly stream: ClientDuplexStream<Buffer, Buffer>;
  private pending: Pending | undefined;
  private done = false;

  constructor(
    client: Client,
    private readonly clock: Clock,
  ) {
    const { path } = SERVICE.modelStreamInfer;
    this.stream = client.makeBidiStreamRequest(path, same, same, new Metadata(), {});
    this.stream.on("data", (message: Buffer) => this.receive(message));
    this.stream.on("status", ({ code, details }: StatusObject) => this.finish(code, details));
    // The same as the status, which comes too.
    this.stream.on("error", (_error: ServiceError) => {});
  }

  /** Nothing more can be sent. */
  get ended(): boolean {
    return this.done;
  }

  /**
   * Sends a serialised ModelInferRequest.
   * @returns the serialised ModelInferResponse
   * @throws StreamRefusal when the server refuses it, StreamUnimplemented when it has no streams, UpstreamError when the stream breaks or the deadline passes, which ends it
   */
  infer(message: Buffer, deadlineAtMs: number): Promise<Buffer> {
    if (this.pending !== undefined) return Promise.reject(new Error("bug: a second message on a busy stream"));
    return new Promise((resolve, reject) => {
      const timer: Timer = this.clock.schedule(deadlineAtMs, () => {
        this.settle()?.reject(new UpstreamError("deadline", "the model server did not answer in time"));
        this.close();
      });
      const settled =
        <V>(settle: (value: V) => void) =>
        (value: V): void => {
          timer.cancel();
          settle(value);
        };
      this.pending = { resolve: settled(resolve), reject: settled(reject) };
      this.stream.write(message);
    });
  }

  close(): void {
    this.done = true;
    this.stream.cancel();
  }

  private receive(message: Buffer): void {
    const pending = this.settle();
    // An answer that nobody awaits: whatever comes next could be taken for another request's.
    if (pending === undefined) {
      this.close();
      return;
    }
    try {
      const { refusal, answer } = readStreamAnswer(message);
      if (refusal !== "") pending.reject(new StreamRefusal(refusal));
      else pending.resolve(answer);
    } catch (error) {
      pending.reject(error instanceof Error ? error : new Error(String(error)));
      this.close();
    }
  }

  private finish(code: status, details: string): void {
    this.done = true;
    this.settle()?.reject(endOfStream(code, details));
  }

  private settle(): Pending | undefined {
    const { pending } = this;
    this.pending = undefined;
    return pending;
  }
}

function endOfStream(code: status, details: string): Error {
  if (code === status.UNIMPLEMENTED) return new StreamUnimplemented(details);
  // One that ends well before its answer has the same cause as one that breaks: the server goes.
  if (code === status.OK) return new UpstreamError("unreachable", "the model server ended the stream");
  return classifyStatus(code, details);
}

function readStreamAnswer(message: Buffer): { refusal: string; answer: Buffer } {
  const reader = new WireReader(message);
  let refusal = "";
  let answer: Buffer = Buffer.alloc(0);
  while (reader.next()) {
    if (reader.field === RESPONSE.errorMessage) refusal = reader.string();
    else if (reader.field === RESPONSE.inferResponse) answer = reader.bytes();
    else reader.skip();
  }
  return { refusal, answer };
}
