import { type CallOptions, credentials, Metadata, Server, ServerCredentials, type ServiceError } from "@grpc/grpc-js";
import {
  type DeepPartial,
  GRPCInferenceServiceClient,
  ModelInferRequest,
  type ModelInferResponse,
} from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import type { ServingSpec } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { type Call, RestServiceClient } from "@servemesh/proto/gen/mesh/servemesh/rest/v1/rest.js";
import type { Cancellation, Predictor, PredictRequest, PredictResult, Tensor } from "../../request.js";
import { createIngress, type IngressDeps } from "../ingress.js";
import type { CallDone } from "../ports.js";
import type { ServedModel } from "../served-model.js";

/** What a client saw of one call. */
export interface Seen<T> {
  readonly code: number;
  readonly message: string;
  readonly reason: string | undefined;
  /** Initial metadata of an answer, or the trailers of a refusal. */
  readonly headers: Metadata;
  readonly answer: T | undefined;
}

export interface RestAnswer {
  readonly contentType: string;
  readonly data: Buffer;
}

/** Requests that reached the pipeline, and what it does with them. */
export class FakePredictor implements Predictor {
  readonly requests: PredictRequest[] = [];

  constructor(
    readonly answer: (request: PredictRequest, cancellation: Cancellation) => Tensor[] | Promise<Tensor[]>,
    readonly extra: Partial<PredictResult> = {},
  ) {}

  async predict(request: PredictRequest, cancellation: Cancellation): Promise<PredictResult> {
    this.requests.push(request);
    const outputs = await this.answer(request, cancellation);
    return { outputs, parameters: new Map(), timings: {}, cacheHit: false, batchSize: 1, ...this.extra };
  }
}

/** Gives input `x` back as output `y`. */
export function echoPredictor(): FakePredictor {
  return new FakePredictor((request) => request.inputs.map((input) => ({ ...input, name: "y" })));
}

/** A real gRPC server on a free loopback port with the ingress on it, and unmodified generated clients. */
export class Loopback {
  readonly done: CallDone[] = [];
  readonly logged: string[] = [];
  port = 0;

  private readonly server: Server;
  private inference: GRPCInferenceServiceClient | undefined;
  private rest: RestServiceClient | undefined;

  private constructor(
    private served: ServedModel | undefined,
    predictor: Predictor,
    overrides: Partial<IngressDeps>,
  ) {
    const ingress = createIngress({
      predictor,
      served: () => this.served,
      logger: { error: (_fields, message) => void this.logged.push(message) },
      metrics: { callDone: (done) => void this.done.push(done) },
      ...overrides,
    });
    this.server = new Server(ingress.serverOptions);
    ingress.addTo(this.server);
  }

  static async start(spec: ServingSpec, predictor: Predictor, overrides: Partial<IngressDeps> = {}): Promise<Loopback> {
    const served: ServedModel = { model: "ranker", version: 41n, spec, ready: true, draining: false };
    const loopback = new Loopback(served, predictor, overrides);
    await loopback.listen();
    return loopback;
  }

  serve(change: Partial<ServedModel> | undefined): void {
    this.served = change === undefined || this.served === undefined ? undefined : { ...this.served, ...change };
  }

  get clients(): { inference: GRPCInferenceServiceClient; rest: RestServiceClient } {
    if (this.inference === undefined || this.rest === undefined) throw new Error("not listening");
    return { inference: this.inference, rest: this.rest };
  }

  infer(
    request: DeepPartial<ModelInferRequest>,
    headers: Record<string, string> = {},
    options: CallOptions = {},
  ): Promise<Seen<ModelInferResponse>> {
    const message = ModelInferRequest.fromPartial({ modelName: "ranker", ...request });
    return see((done) => this.clients.inference.modelInfer(message, metadataOf(headers), options, done));
  }

  predictV1(
    body: string | Buffer,
    headers: Record<string, string> = {},
    call: Partial<Call> = {},
  ): Promise<Seen<RestAnswer>> {
    const message = restCall(body, call);
    return see((done) => this.clients.rest.predictV1(message, metadataOf(headers), done));
  }

  inferV2(
    body: string | Buffer,
    headers: Record<string, string> = {},
    call: Partial<Call> = {},
  ): Promise<Seen<RestAnswer>> {
    const message = restCall(body, call);
    return see((done) => this.clients.rest.inferV2(message, metadataOf(headers), done));
  }

  stop(): void {
    this.inference?.close();
    this.rest?.close();
    this.server.forceShutdown();
  }

  private async listen(): Promise<void> {
    this.port = await new Promise((resolve, reject) => {
      this.server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
        error === null ? resolve(port) : reject(error),
      );
    });
    this.inference = new GRPCInferenceServiceClient(`127.0.0.1:${this.port}`, credentials.createInsecure());
    this.rest = new RestServiceClient(`127.0.0.1:${this.port}`, credentials.createInsecure());
  }
}

export function restCall(body: string | Buffer, call: Partial<Call> = {}): Call {
  const data = typeof body === "string" ? Buffer.from(body) : body;
  const httpBody = { contentType: "application/json", data, extensions: [] };
  return { model: "ranker", version: "", label: "", body: httpBody, ...call };
}

export function metadataOf(headers: Record<string, string>): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  return metadata;
}

interface UnaryCall {
  on(event: "metadata", listener: (metadata: Metadata) => void): unknown;
}

/** Waits for one unary call. */
export function see<T>(start: (done: (error: ServiceError | null, answer: T) => void) => UnaryCall): Promise<Seen<T>> {
  return new Promise((resolve) => {
    let headers = new Metadata();
    const call = start((error, answer) => {
      const shown = error === null ? headers : error.metadata;
      const reason = shown.get("x-servemesh-reason")[0];
      resolve({
        code: error?.code ?? 0,
        message: error?.details ?? "",
        reason: typeof reason === "string" ? reason : undefined,
        headers: shown,
        answer: error === null ? answer : undefined,
      });
    });
    call.on("metadata", (metadata) => {
      headers = metadata;
    });
  });
}

/** Raw FP32 bytes. */
export function floats(...values: number[]): Buffer {
  const out = Buffer.alloc(values.length * 4);
  values.forEach((value, index) => void out.writeFloatLE(value, index * 4));
  return out;
}

/** Raw INT64 bytes. */
export function int64s(...values: bigint[]): Buffer {
  const out = Buffer.alloc(values.length * 8);
  values.forEach((value, index) => void out.writeBigInt64LE(value, index * 8));
  return out;
}

/** Raw BYTES elements. */
export function byteElements(...values: (string | Buffer)[]): Buffer {
  return Buffer.concat(
    values.flatMap((value) => {
      const element = Buffer.from(value as Buffer);
      const length = Buffer.alloc(4);
      length.writeUInt32LE(element.length);
      return [length, element];
    }),
  );
}
