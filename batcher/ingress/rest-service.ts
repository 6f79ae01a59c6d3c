import type { handleUnaryCall, Metadata, Server, ServerUnaryCall } from "@grpc/grpc-js";
import { HttpBody } from "@servemesh/proto/gen/mesh/google/api/httpbody.js";
import { Call as RestCall, RestServiceService } from "@servemesh/proto/gen/mesh/servemesh/rest/v1/rest.js";
import { H_INFERENCE_HEADER_LENGTH } from "@servemesh/proto/names";
import { successMetadata } from "./answer-metadata.js";
import { badInput } from "./bad-input.js";
import { asBytes, decodeMessage } from "./inference-service.js";
import type { IngressLimits } from "./limits.js";
import { checkMediaType } from "./media-type.js";
import type { Door } from "./ports.js";
import type { PredictFlow } from "./predict-flow.js";
import type { AskedModel } from "./reference-check.js";
import { decodePredictV1, encodePredictV1 } from "./rest-v1.js";
import { decodeInferV2, encodeInferV2 } from "./rest-v2.js";
import {
  modelConfigJson,
  modelMetadata,
  modelMetadataV1,
  modelStatusV1,
  SERVER_EXTENSIONS,
  SERVER_NAME,
} from "./served-metadata.js";
import { formatServed, type ServedModel } from "./served-model.js";
import { type ExchangeDeps, type Reply, UnaryExchange } from "./unary-exchange.js";

type Call = ServerUnaryCall<Buffer, Buffer>;
type Work = (exchange: UnaryExchange, call: Call) => Reply | Promise<Reply>;

const JSON_TYPE = "application/json";

/** The REST doors behind Envoy's transcoder: `servemesh.rest.v1.RestService` on the server. */
export function addRestService(
  server: Server,
  flow: PredictFlow,
  deps: ExchangeDeps & { readonly limits: IngressLimits; readonly serverVersion: string },
): void {
  const { limits } = deps;
  const unary = (door: Door, method: string, work: Work): handleUnaryCall<Buffer, Buffer> => {
    return (call, callback) => {
      const exchange = new UnaryExchange(door, method, call, callback, deps);
      exchange.run(() => work(exchange, call));
    };
  };
  const describing = (door: Door, method: string, body: (asked: AskedModel, served: ServedModel) => object) =>
    unary(door, method, (_exchange, call) => {
      const asked = askedOf(decodeMessage(RestCall, call.request));
      return json(body(asked, flow.describe(call, asked)));
    });
  const definitions = Object.fromEntries(
    Object.entries(RestServiceService).map(([name, method]) => [name, asBytes(method)]),
  );
  server.addService(definitions, {
    predictV1: unary("rest_v1", "PredictV1", (exchange, call) => predictV1(flow, exchange, call, limits)),
    statusV1: describing("rest_v1", "StatusV1", (_asked, served) => modelStatusV1(served)),
    metadataV1: describing("rest_v1", "MetadataV1", (asked, served) => modelMetadataV1(asked.model, served)),
    inferV2: unary("rest_v2", "InferV2", (exchange, call) => inferV2(flow, exchange, call, limits)),
    modelMetadataV2: describing("rest_v2", "ModelMetadataV2", (asked, served) => modelMetadata(asked.model, served)),
    modelReadyV2: describing("rest_v2", "ModelReadyV2", (asked) => {
      flow.readyModel();
      return { name: asked.model, ready: true };
    }),
    modelConfigV2: describing("rest_v2", "ModelConfigV2", (asked, served) => modelConfigJson(asked.model, served)),
    serverMetadataV2: unary("rest_v2", "ServerMetadataV2", () =>
      json({ name: SERVER_NAME, version: deps.serverVersion, extensions: SERVER_EXTENSIONS }),
    ),
    serverLiveV2: unary("rest_v2", "ServerLiveV2", () => json({ live: true })),
    serverReadyV2: unary("rest_v2", "ServerReadyV2", () => {
      flow.readyModel();
      return json({ ready: true });
    }),
  });
}

async function predictV1(
  flow: PredictFlow,
  exchange: UnaryExchange,
  call: Call,
  limits: IngressLimits,
): Promise<Reply> {
  const admitted = flow.admit(exchange, call);
  const { asked, body } = readRestCall(call);
  const { call: decoded, layout } = decodePredictV1(body, admitted.spec, limits);
  const { served, context, result } = await flow.predict(exchange, call, admitted, { call: decoded, asked });
  return {
    metadata: successMetadata(formatServed(served), context, result.timings),
    body: httpBody(JSON_TYPE, encodePredictV1(result.outputs, layout)),
  };
}

async function inferV2(flow: PredictFlow, exchange: UnaryExchange, call: Call, limits: IngressLimits): Promise<Reply> {
  const admitted = flow.admit(exchange, call);
  const { asked, body } = readRestCall(call);
  const { call: decoded, isBinary } = decodeInferV2(body, headLengthOf(call.metadata), admitted.spec, limits);
  const { served, context, result } = await flow.predict(exchange, call, admitted, { call: decoded, asked });
  const answer = encodeInferV2(
    {
      modelName: asked.model,
      modelVersion: `${served.version}`,
      id: decoded.id,
      parameters: result.parameters,
      outputs: result.outputs,
    },
    isBinary,
  );
  const metadata = successMetadata(formatServed(served), context, result.timings);
  if (answer.headBytes !== undefined) metadata.set(H_INFERENCE_HEADER_LENGTH, `${answer.headBytes}`);
  return { metadata, body: httpBody(answer.contentType, answer.body) };
}

function readRestCall(call: Call): { asked: AskedModel; body: Buffer } {
  const message = decodeMessage(RestCall, call.request);
  const body = message.body;
  if (body === undefined || body.data.length === 0) throw badInput("body is empty; send a JSON object");
  checkMediaType(body.contentType);
  return { asked: askedOf(message), body: body.data };
}

function askedOf({ model, version, label }: RestCall): AskedModel {
  return { model, version, label };
}

function headLengthOf(metadata: Metadata): string | undefined {
  const value = metadata.get(H_INFERENCE_HEADER_LENGTH)[0];
  return value === undefined ? undefined : String(value);
}

function json(value: object): Reply {
  return { body: httpBody(JSON_TYPE, Buffer.from(JSON.stringify(value))) };
}

function httpBody(contentType: string, data: Buffer): Buffer {
  const bytes = HttpBody.encode({ contentType, data, extensions: [] }).finish();
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
