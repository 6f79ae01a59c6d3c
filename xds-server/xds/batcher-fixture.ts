import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { HttpBody } from "@servemesh/proto/gen/mesh/google/api/httpbody.js";
import { GRPCInferenceServiceService } from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import { Call, RestServiceService } from "@servemesh/proto/gen/mesh/servemesh/rest/v1/rest.js";
import { H_REASON, H_SERVED_BY, H_VERSION, REASON_OVERLOADED, REASON_QUOTA } from "@servemesh/proto/names";

/** What a pretended batcher saw of one call. */
export interface SeenCall {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  /** What is left of the call's `grpc-timeout`, which grpc-js takes out of the headers. */
  readonly remainingMs: number;
  /** Of a REST door: what the transcoder made of path and body. Undefined for gRPC. */
  readonly rest: { model: string; version: string; label: string; bodyBytes: number } | undefined;
  readonly messageBytes: number;
}

/** How a pretended batcher answers: as a good one, or with a refusal of its own. */
export type Behaviour = "serve" | "overloaded" | "quota";

const MESSAGE_MAX_BYTES = 64 * 1024 * 1024;

/** A server that answers as a batcher would, without a model: it names itself and tells what it was sent. */
export class PretendedBatcher {
  readonly seen: SeenCall[] = [];
  behaviour: Behaviour = "serve";
  /** Answers wait this long. */
  delayMs = 0;
  /** Bytes added to an answer. */
  paddingBytes = 0;
  /** Calls that were not answered yet. */
  inFlight = 0;
  #port: number;
  #server: Server | undefined;

  /** @param port 0 means any free one, from `listen` on */
  constructor(port: number) {
    this.#port = port;
  }

  get port(): number {
    return this.#port;
  }

  listen(): Promise<void> {
    const server = new Server({ "grpc.max_receive_message_length": MESSAGE_MAX_BYTES });
    this.#server = server;
    for (const service of [RestServiceService, GRPCInferenceServiceService]) {
      const methods = Object.entries(service).filter(([, { requestStream }]) => !requestStream);
      const raw = methods.map(([name, { path }]) => [name, rawMethod(path)] as const);
      const handlers = methods.map(([name, { path }]) => [name, this.#handler(path)] as const);
      server.addService(Object.fromEntries(raw), Object.fromEntries(handlers) as UntypedServiceImplementation);
    }
    return new Promise((resolve, reject) =>
      server.bindAsync(`127.0.0.1:${this.#port}`, ServerCredentials.createInsecure(), (error, bound) => {
        if (error !== null) return reject(error);
        this.#port = bound;
        resolve();
      }),
    );
  }

  /** Ends at once, as a killed process would. */
  close(): void {
    this.#server?.forceShutdown();
  }

  /** Takes no new calls and resolves when those that run are answered. */
  shutDown(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#server === undefined) return resolve();
      this.#server.tryShutdown(() => resolve());
    });
  }

  #handler(path: string) {
    const method = path.slice(path.lastIndexOf("/") + 1);
    const isRest = path.includes("RestService");
    return (call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>): void => {
      const headers = Object.fromEntries(
        Object.entries(call.metadata.getMap()).map(([key, value]) => [key, String(value)]),
      );
      const remainingMs = Number(call.getDeadline()) - Date.now();
      const rest = isRest ? restOf(call.request) : undefined;
      const seen = { method, headers, remainingMs, rest, messageBytes: call.request.length };
      this.seen.push(seen);
      this.inFlight += 1;
      setTimeout(() => {
        this.inFlight -= 1;
        this.#reply(seen, call, done);
      }, this.delayMs);
    };
  }

  #reply(seen: SeenCall, call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>): void {
    const metadata = new Metadata();
    if (this.behaviour !== "serve") {
      // Trailers only: after sendMetadata the reason would be lost.
      metadata.set(H_REASON, this.behaviour === "overloaded" ? REASON_OVERLOADED : REASON_QUOTA);
      done({ code: status.RESOURCE_EXHAUSTED, details: "the queue is full", metadata });
      return;
    }
    metadata.set(H_SERVED_BY, seen.headers[H_VERSION] ?? "none");
    call.sendMetadata(metadata);
    const padding = "x".repeat(this.paddingBytes);
    const body = Buffer.from(JSON.stringify({ port: this.port, method: seen.method, rest: seen.rest, padding }));
    if (seen.rest === undefined) done(null, body);
    else
      done(
        null,
        Buffer.from(HttpBody.encode({ contentType: "application/json", data: body, extensions: [] }).finish()),
      );
  }
}

function restOf(request: Buffer): SeenCall["rest"] {
  const { model, version, label, body } = Call.decode(request);
  return { model, version, label, bodyBytes: body?.data.length ?? 0 };
}

function rawMethod(path: string) {
  const raw = (bytes: Buffer): Buffer => bytes;
  return {
    path,
    requestStream: false,
    responseStream: false,
    requestSerialize: raw,
    requestDeserialize: raw,
    responseSerialize: raw,
    responseDeserialize: raw,
  };
}
