import {
  DataType,
  type ModelConfig,
  ModelConfig as ModelConfigCodec,
} from "@servemesh/proto/gen/mesh/inference/model_config.js";
import type { Datatype } from "../request.js";
import { type CompiledTensor, compileSpec } from "./compiled-spec.js";
import type { ServedModel } from "./served-model.js";

/** Name and platform that the server answers to metadata calls. */
export const SERVER_NAME = "servemesh";
/** Protocol extensions (KServe v2) that work through the mesh. */
export const SERVER_EXTENSIONS: readonly string[] = ["binary_tensor_data", "model_configuration"];

/** TensorFlow's DataType names, which TF-Serving's metadata speaks. */
const TENSORFLOW_TYPE: Readonly<Record<Datatype, string>> = {
  BOOL: "DT_BOOL",
  UINT8: "DT_UINT8",
  UINT16: "DT_UINT16",
  UINT32: "DT_UINT32",
  UINT64: "DT_UINT64",
  INT8: "DT_INT8",
  INT16: "DT_INT16",
  INT32: "DT_INT32",
  INT64: "DT_INT64",
  FP16: "DT_HALF",
  BF16: "DT_BFLOAT16",
  FP32: "DT_FLOAT",
  FP64: "DT_DOUBLE",
  BYTES: "DT_STRING",
};

/** Triton's `TYPE_...` name of a datatype. */
function tritonType(datatype: Datatype): keyof typeof DataType {
  return datatype === "BYTES" ? "TYPE_STRING" : `TYPE_${datatype}`;
}

/** KServe v2 tensor metadata, batch dimension included. */
function tensorMetadata({ name, datatype, shape }: CompiledTensor): {
  name: string;
  datatype: Datatype;
  shape: readonly number[];
} {
  return { name, datatype, shape };
}

/** Body of `GET /v2/models/{m}`, and the fields of gRPC's ModelMetadataResponse. */
export function modelMetadata(asked: string, served: ServedModel) {
  const spec = compileSpec(served.spec);
  return {
    name: asked,
    versions: [`${served.version}`],
    platform: SERVER_NAME,
    inputs: spec.inputs.map(tensorMetadata),
    outputs: spec.outputs.map(tensorMetadata),
  };
}

/** Triton's model configuration, as far as clients such as perf_analyzer read it; dims without the batch dimension. */
export function modelConfig(asked: string, served: ServedModel): ModelConfig {
  const spec = compileSpec(served.spec);
  return ModelConfigCodec.fromPartial({
    name: asked,
    platform: SERVER_NAME,
    backend: SERVER_NAME,
    versionPolicy: { policyChoice: { $case: "specific", value: { versions: [served.version] } } },
    maxBatchSize: spec.maxRows,
    input: spec.inputs.map((tensor) => ({ ...configTensor(tensor), optional: tensor.optional })),
    output: spec.outputs.map(configTensor),
    schedulingChoice: {
      $case: "dynamicBatching",
      value: { maxQueueDelayMicroseconds: BigInt(served.spec.batching?.maxQueueDelayUs ?? 0) },
    },
  });
}

function configTensor({ name, datatype, shape }: CompiledTensor) {
  return { name, dataType: DataType[tritonType(datatype)], dims: shape.slice(1).map(BigInt) };
}

/** Body of `GET /v2/models/{m}/config`, in the field names of Triton's HTTP endpoint. */
export function modelConfigJson(asked: string, served: ServedModel): object {
  const spec = compileSpec(served.spec);
  const tensor = ({ name, datatype, shape }: CompiledTensor) => ({
    name,
    data_type: tritonType(datatype),
    dims: shape.slice(1),
  });
  return {
    name: asked,
    platform: SERVER_NAME,
    backend: SERVER_NAME,
    version_policy: { specific: { versions: [exactNumber(served.version)] } },
    max_batch_size: spec.maxRows,
    input: spec.inputs.map((input) => ({ ...tensor(input), format: "FORMAT_NONE", optional: input.optional })),
    output: spec.outputs.map(tensor),
    dynamic_batching: { max_queue_delay_microseconds: served.spec.batching?.maxQueueDelayUs ?? 0 },
  };
}

/** A JSON number where that is exact, else the text that protobuf's JSON form has for 64-bit integers. */
function exactNumber(value: bigint): number | string {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : `${value}`;
}

/** Body of `GET /v1/models/{m}` (tensorflow_serving.apis.GetModelStatusResponse). */
export function modelStatusV1(served: ServedModel): object {
  const state = served.draining ? "UNLOADING" : served.ready ? "AVAILABLE" : "LOADING";
  return {
    model_version_status: [{ version: `${served.version}`, state, status: { error_code: "OK", error_message: "" } }],
  };
}

/** Body of `GET /v1/models/{m}/metadata` (tensorflow_serving.apis.GetModelMetadataResponse). */
export function modelMetadataV1(asked: string, served: ServedModel): object {
  const spec = compileSpec(served.spec);
  const tensors = (list: readonly CompiledTensor[]) =>
    Object.fromEntries(
      list.map(({ name, datatype, shape }) => [
        name,
        {
          name,
          dtype: TENSORFLOW_TYPE[datatype],
          tensor_shape: { dim: shape.map((size) => ({ size: `${size}`, name: "" })), unknown_rank: false },
        },
      ]),
    );
  return {
    model_spec: { name: asked, signature_name: "", version: `${served.version}` },
    metadata: {
      signature_def: {
        signature_def: {
          serving_default: {
            inputs: tensors(spec.inputs),
            outputs: tensors(spec.outputs),
            method_name: "tensorflow/serving/predict",
          },
        },
      },
    },
  };
}
