import type { handleBidiStreamingCall, handleUnaryCall, Server, ServerUnaryCall } from "@grpc/grpc-js";
import {
  GRPCInferenceServiceService,
  ModelConfigRequest,
  ModelConfigResponse,
  ModelMetadataRequest,
  ModelMetadataResponse,
  ModelReadyRequest,
  ModelReadyResponse,
  ServerLiveResponse,
  ServerMetadataResponse,
  ServerReadyResponse,
} from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import { PredictError } from "../request.js";
import { refusalOf, successMetadata } from "./answer-metadata.js";
import { badInput } from "./bad-input.js";
import { decodeInferRequest, encodeInferResponse } from "./infer-envelope.js";
import type { IngressLimits } from "./limits.js";
import type { PredictFlow } from "./predict-flow.js";
import { modelConfig, modelMetadata, SERVER_EXTENSIONS, SERVER_NAME } from "./served-metadata.js";
import { formatServed, type ServedModel } from "./served-model.js";
import { type ExchangeDeps, type Reply, UnaryExchange } from "./unary-exchange.js";

type Call = ServerUnaryCall<Buffer, Buffer>;
type Work = (exchange: UnaryExchange, call: Call) => Reply | Promise<Reply>;

/** Status of methods that are part of the protocol but not of this server. */
const UNIMPLEMENTED = 12;

interface Encoder<T> {
  encode(message: T): { finish(): Uint8Array };
}

interface Decoder<T> {
  readonly $type: string;
  decode(bytes: Uint8Array): T;
}

const identity = (bytes: Buffer): Buffer => bytes;

/** A method definition whose messages pass as bytes: what a body holds, the handler finds out, with good errors. */
export function asBytes<D extends { path: string; requestStream: boolean; responseStream: boolean }>(definition: D) {
  const { path, requestStream, responseStream } = definition;
  return {
    path,
    requestStream,
    responseStream,
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  };
}

/** Decodes a small message with generated code. @throws PredictError `bad_input` */
export function decodeMessage<T>(codec: Decoder<T>, bytes: Buffer): T {
  try {
    return codec.decode(bytes);
  } catch {
    throw badInput(`${codec.$type} is not valid protobuf; check the client's encoder`);
  }
}

/** KServe v2 over gRPC: `inference.GRPCInferenceService` on the server. */
export function addInferenceService(
  server: Server,
  flow: PredictFlow,
  deps: ExchangeDeps & { readonly limits: IngressLimits; readonly serverVersion: string },
): void {
  const service = GRPCInferenceServiceService;
  const unary = (method: string, work: Work): handleUnaryCall<Buffer, Buffer> => {
    return (call, callback) => {
      const exchange = new UnaryExchange("grpc", method, call, callback, deps);
      exchange.run(() => work(exchange, call));
    };
  };
  const unknown = (method: string) => unary(method, () => refuseUnknown(method));
  const definitions = Object.fromEntries(Object.entries(service).map(([name, method]) => [name, asBytes(method)]));
  server.addService(definitions, {
    serverLive: unary("ServerLive", () => encode(ServerLiveResponse, { live: true })),
    serverReady: unary("ServerReady", () => encode(ServerReadyResponse, { ready: flow.isReady() })),
    serverMetadata: unary("ServerMetadata", () =>
      encode(ServerMetadataResponse, {
        name: SERVER_NAME,
        version: deps.serverVersion,
        extensions: [...SERVER_EXTENSIONS],
      }),
    ),
    modelReady: unary("ModelReady", (_exchange, call) => {
      const asked = decodeMessage(ModelReadyRequest, call.request);
      const ready = flow.isReady();
      if (ready) describeByName(flow, call, asked);
      return encode(ModelReadyResponse, { ready });
    }),
    modelMetadata: unary("ModelMetadata", (_exchange, call) => {
      const asked = decodeMessage(ModelMetadataRequest, call.request);
      const metadata = modelMetadata(asked.name, describeByName(flow, call, asked));
      return encode(ModelMetadataResponse, ModelMetadataResponse.fromPartial(toWireMetadata(metadata)));
    }),
    modelConfig: unary("ModelConfig", (_exchange, call) => {
      const asked = decodeMessage(ModelConfigRequest, call.request);
      return encode(ModelConfigResponse, { config: modelConfig(asked.name, describeByName(flow, call, asked)) });
    }),
    modelInfer: unary("ModelInfer", (exchange, call) => infer(flow, exchange, call, deps.limits)),
    modelStreamInfer: refuseStream,
    modelStatistics: unknown("ModelStatistics"),
    repositoryIndex: unknown("RepositoryIndex"),
    repositoryModelLoad: unknown("RepositoryModelLoad"),
    repositoryModelUnload: unknown("RepositoryModelUnload"),
  });
}

async function infer(flow: PredictFlow, exchange: UnaryExchange, call: Call, limits: IngressLimits): Promise<Reply> {
  const admitted = flow.admit(exchange, call);
  const decoded = decodeInferRequest(call.request, limits);
  const asked = { model: decoded.modelName, version: decoded.modelVersion, label: "" };
  const { served, context, result } = await flow.predict(exchange, call, admitted, { call: decoded, asked });
  const body = encodeInferResponse({
    modelName: decoded.modelName,
    modelVersion: `${served.version}`,
    id: decoded.id,
    parameters: result.parameters,
    outputs: result.outputs,
  });
  return { metadata: successMetadata(formatServed(served), context, result.timings), body };
}

function encode<T>(codec: Encoder<T>, message: T): Reply {
  const bytes = codec.encode(message).finish();
  return { body: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) };
}

function describeByName(flow: PredictFlow, call: Call, asked: { name: string; version: string }): ServedModel {
  return flow.describe(call, { model: asked.name, version: asked.version, label: "" });
}

function toWireMetadata(metadata: ReturnType<typeof modelMetadata>) {
  const tensors = (list: typeof metadata.inputs) => list.map((item) => ({ ...item, shape: item.shape.map(BigInt) }));
  return { ...metadata, inputs: tensors(metadata.inputs), outputs: tensors(metadata.outputs) };
}

function unknownMethod(method: string): PredictError {
  return new PredictError(
    "path_not_found",
    `${method} is not offered through the mesh; use ModelInfer and the metadata calls`,
  );
}

function refuseUnknown(method: string): never {
  throw unknownMethod(method);
}

const refuseStream: handleBidiStreamingCall<Buffer, Buffer> = (call) => {
  // A stream has no callback: an error event ends it, trailers-only because nothing has been sent.
  call.emit("error", refusalOf(unknownMethod("ModelStreamInfer"), UNIMPLEMENTED));
};
