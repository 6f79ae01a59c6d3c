import {
  type DeepPartial,
  type InferTensorContents,
  ModelInferRequest,
} from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import type { ServingSpec } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { PredictError } from "../../request.js";
import { compileSpec } from "../compiled-spec.js";
import { decodeInferRequest } from "../infer-envelope.js";
import { DEFAULT_LIMITS } from "../limits.js";
import { decodePredictV1 } from "../rest-v1.js";
import { decodeInferV2 } from "../rest-v2.js";
import { type CheckedCall, checkCall } from "../validate.js";

export type Message = DeepPartial<ModelInferRequest>;
export type Contents = DeepPartial<InferTensorContents>;

/** Decodes and checks a ModelInfer message as the gRPC door does. */
export function grpc(spec: ServingSpec, message: Message): CheckedCall {
  const bytes = Buffer.from(ModelInferRequest.encode(ModelInferRequest.fromPartial(message)).finish());
  return checkCall(decodeInferRequest(bytes, DEFAULT_LIMITS), compileSpec(spec), DEFAULT_LIMITS);
}

/** The same for a TF-Serving body. */
export function v1(spec: ServingSpec, body: string | object): CheckedCall {
  const bytes = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  const compiled = compileSpec(spec);
  return checkCall(decodePredictV1(bytes, compiled, DEFAULT_LIMITS).call, compiled, DEFAULT_LIMITS);
}

/** The same for a KServe v2 body, with raw tensors behind the JSON head if given. */
export function v2(spec: ServingSpec, head: string | object, raw?: Buffer): CheckedCall {
  const json = Buffer.from(typeof head === "string" ? head : JSON.stringify(head));
  const compiled = compileSpec(spec);
  const length = raw === undefined ? undefined : `${json.length}`;
  const { call } = decodeInferV2(Buffer.concat([json, raw ?? Buffer.alloc(0)]), length, compiled, DEFAULT_LIMITS);
  return checkCall(call, compiled, DEFAULT_LIMITS);
}

/** The text of the `bad_input` that the work throws; fails the test for anything else. */
export function messageOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof PredictError && error.reason === "bad_input") return error.message;
    throw error;
  }
  throw new Error("accepted");
}

/** One input `x` through all four doors that carry a shape. */
export function everyDoor(datatype: string, shape: (number | string)[], raw: Buffer, typed: Contents, json: string) {
  const dims = `[${shape.join(",")}]`;
  const input = { name: "x", datatype, shape: shape.map(BigInt) };
  const head = (rest: string) => `{"inputs":[{"name":"x","datatype":"${datatype}","shape":${dims},${rest}}]}`;
  return {
    typed: (spec: ServingSpec) => grpc(spec, { inputs: [{ ...input, contents: typed }] }),
    raw: (spec: ServingSpec) => grpc(spec, { inputs: [input], rawInputContents: [raw] }),
    json: (spec: ServingSpec) => v2(spec, head(`"data":${json}`)),
    binary: (spec: ServingSpec) => v2(spec, head(`"parameters":{"binary_data_size":${raw.length}}`), raw),
  };
}
