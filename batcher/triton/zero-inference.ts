import type { MergedTensor } from "../batch/merge.js";
import { ELEMENT_BYTES } from "../element-bytes.js";
import type { ParameterValue } from "../request.js";
import type { ServingPlan, TensorPlan } from "../transform/serving-plan.js";
import type { UpstreamRequest } from "./model-server.js";

const NO_PARAMETERS: ReadonlyMap<string, ParameterValue> = new Map();

/** One row of zeros (empty strings for BYTES, 1 for every free dimension) through the whole model: the readiness probe. */
export function zeroInference(plan: ServingPlan): UpstreamRequest {
  return {
    inputs: plan.upstream.filter(({ tensor }) => !tensor.optional).map(({ tensor }) => zeroTensor(tensor)),
    outputs: plan.outputs.map((output) => output.name),
    parameters: NO_PARAMETERS,
  };
}

function zeroTensor(tensor: TensorPlan): MergedTensor {
  const shape = tensor.shape.map((size) => (size === -1 ? 1 : size));
  const elements = shape.reduce((product, size) => product * size, 1);
  // A BYTES element of length 0 is its 4-byte length alone.
  const byteLength = elements * (tensor.datatype === "BYTES" ? 4 : ELEMENT_BYTES[tensor.datatype]);
  return { name: tensor.name, datatype: tensor.datatype, shape, parts: [Buffer.alloc(byteLength)], byteLength };
}
