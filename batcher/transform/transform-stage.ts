import type { FeatureLookup } from "../features/feature-store.js";
import { PredictError, type Tensor } from "../request.js";
import { entityIds } from "./entity-ids.js";
import type { ServingPlan, UpstreamPlan } from "./serving-plan.js";

/** The look-ups of one request, in the order of the plan's views; empty without views. */
export function featureLookups(plan: ServingPlan, inputs: readonly Tensor[]): FeatureLookup[] {
  return plan.views.map((view) => {
    const entity = inputs.find((tensor) => tensor.name === view.entityInput);
    if (entity === undefined) {
      throw new PredictError("bad_input", `input "${view.entityInput}": missing; features are looked up by it`);
    }
    return { view: view.name, width: view.width, ids: entityIds(entity) };
  });
}

/**
 * The tensors for the model server: inputs pass through unchanged, views become tensors, the transform turns all views
 * into one.
 * @param views fetched rows in the order of the plan's views
 * @throws PredictError `internal` when the transform fails or returns another size than the spec says
 */
export function upstreamTensors(
  plan: ServingPlan,
  inputs: readonly Tensor[],
  views: readonly Uint8Array[],
  rows: number,
): readonly Tensor[] {
  if (plan.passThrough) return inputs;
  const tensors: Tensor[] = [];
  for (const upstream of plan.upstream) {
    const tensor = makeTensor(plan, upstream, inputs, views, rows);
    if (tensor !== undefined) tensors.push(tensor);
  }
  return tensors;
}

function makeTensor(
  plan: ServingPlan,
  { tensor, source }: UpstreamPlan,
  inputs: readonly Tensor[],
  views: readonly Uint8Array[],
  rows: number,
): Tensor | undefined {
  if (source.kind === "input") return inputs.find((input) => input.name === tensor.name);
  const shape = [rows, tensor.shape[1] ?? 0];
  const data = source.kind === "view" ? views[source.index] : runTransform(plan, views, rows);
  const expected = rows * (shape[1] ?? 0) * 4;
  if (data === undefined || data.length !== expected) {
    throw new PredictError(
      "internal",
      `upstream input "${tensor.name}": the transform gave ${data?.length ?? 0} bytes, expected ${expected}`,
    );
  }
  return { name: tensor.name, datatype: tensor.datatype, shape, data };
}

function runTransform(plan: ServingPlan, views: readonly Uint8Array[], rows: number): Uint8Array | undefined {
  try {
    return plan.transform?.run(rows, views);
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    throw new PredictError("internal", `the transform "${plan.transform?.name ?? ""}" failed: ${text}`);
  }
}
