import {
  ServingSpec,
  type ServingSpec as ServingSpecMessage,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { Datatype } from "../../request.js";

/** The model that the cases of the predict API are written for. */
export function rankerSpec(): ServingSpecMessage {
  return ServingSpec.fromPartial({
    inputs: [
      { name: "features", datatype: "FP32", shape: [-1n, 4n] },
      { name: "user_id", datatype: "INT64", shape: [-1n, 1n] },
      { name: "query", datatype: "BYTES", shape: [-1n, 1n] },
      { name: "hint", datatype: "FP32", shape: [-1n, 1n], optional: true },
    ],
    outputs: [
      { name: "scores", datatype: "FP32", shape: [-1n, 1n] },
      { name: "label", datatype: "BYTES", shape: [-1n, 1n] },
    ],
    batching: { maxBatchSize: 8, maxQueueDelayUs: 4000 },
  });
}

/** A model with one input `x` that comes back as output `y`. */
export function echoSpec(datatype: Datatype, rowShape: readonly number[], maxBatchSize = 8): ServingSpecMessage {
  const shape = [-1n, ...rowShape.map(BigInt)];
  return ServingSpec.fromPartial({
    inputs: [{ name: "x", datatype, shape }],
    outputs: [{ name: "y", datatype, shape }],
    batching: { maxBatchSize },
  });
}
