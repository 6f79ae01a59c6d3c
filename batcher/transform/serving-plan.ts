import { createHash } from "node:crypto";
import {
  type FeatureView,
  type ModelVersion,
  ServingSpec,
  type TensorSpec,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { Transform } from "@servemesh/wasm-filters";
import { isDatatype } from "../element-bytes.js";
import type { QueueLimits } from "../queue/batch-queue.js";
import type { Datatype } from "../request.js";
import { ENTITY_DATATYPES } from "./entity-ids.js";

/** A version whose record cannot be served; `message` names the field, the problem and the remedy. */
export class SpecError extends Error {
  override readonly name = "SpecError";
}

/** A tensor of the spec, checked. */
export interface TensorPlan {
  readonly name: string;
  readonly datatype: Datatype;
  /** -1 is any size; the batch dimension stands first. */
  readonly shape: readonly number[];
  readonly optional: boolean;
}

/** Where one tensor for the model server comes from. */
export type UpstreamSource =
  | { readonly kind: "input" }
  | { readonly kind: "view"; readonly index: number }
  | { readonly kind: "transform" };

export interface UpstreamPlan {
  readonly tensor: TensorPlan;
  readonly source: UpstreamSource;
}

export interface ViewPlan {
  readonly name: string;
  readonly width: number;
  readonly entityInput: string;
}

/** A version's record, compiled once per assignment. */
export interface ServingPlan {
  readonly model: string;
  readonly version: bigint;
  readonly inputs: readonly TensorPlan[];
  readonly outputs: readonly TensorPlan[];
  readonly views: readonly ViewPlan[];
  readonly upstream: readonly UpstreamPlan[];
  /** The model server gets the inputs as they are. */
  readonly passThrough: boolean;
  readonly transform: Transform | undefined;
  readonly limits: QueueLimits;
  /** Undefined when answers must not be reused. */
  readonly cacheMaxBytes: number | undefined;
  /** Of everything that decides an answer apart from the request and the features. */
  readonly digest: string;
}

/** Hard bounds on what a record may ask for; a record above them is refused, not cut. */
const MAX_BATCH_ROWS = 4096;
const MAX_QUEUE_DELAY_US = 10_000_000;
const MAX_QUEUE_SIZE = 100_000;
const MAX_IN_FLIGHT = 64;
const MAX_CACHE_BYTES = 16 * 1024 ** 3;
const DEFAULT_QUEUE_SIZE = 64;
const DEFAULT_CACHE_BYTES = 64 * 1024 ** 2;

/**
 * Compiles and checks a version's record.
 * @param transform the loaded module when the spec names one
 * @param maxWaitingBytes the batcher's own bound on queued bytes
 * @throws SpecError
 */
export function compileServingPlan(
  version: ModelVersion,
  transform: Transform | undefined,
  maxWaitingBytes: number,
): ServingPlan {
  const spec = version.serving;
  if (spec === undefined) throw new SpecError("serving: missing; register the version with a serving spec");
  const inputs = tensors("serving.inputs", spec.inputs);
  const outputs = tensors("serving.outputs", spec.outputs);
  const views = spec.views.map((view, index) => viewPlan(view, index, inputs));
  const declared = spec.upstreamInputs.length > 0 ? tensors("serving.upstream_inputs", spec.upstreamInputs) : undefined;
  const upstream = upstreamPlan(inputs, views, declared, spec.transform);
  checkTransform(spec.transform, transform, views, upstream);
  return {
    model: version.model,
    version: version.version,
    inputs,
    outputs,
    views,
    upstream,
    passThrough: declared === undefined,
    transform,
    limits: queueLimits(spec, maxWaitingBytes),
    cacheMaxBytes: cacheBytes(spec),
    digest: planDigest(version, spec, transform),
  };
}

function tensors(field: string, specs: readonly TensorSpec[]): TensorPlan[] {
  if (specs.length === 0) throw new SpecError(`${field}: empty; name at least one tensor`);
  const names = new Set<string>();
  return specs.map((spec, index) => {
    const where = `${field}[${index}] "${spec.name}"`;
    if (spec.name === "" || names.has(spec.name)) throw new SpecError(`${where}: the name must be there and be unique`);
    names.add(spec.name);
    if (!isDatatype(spec.datatype))
      throw new SpecError(`${where}: datatype "${spec.datatype}" is not a KServe v2 datatype`);
    if (spec.shape.length === 0 || spec.shape[0] !== -1n) {
      throw new SpecError(`${where}: shape must start with -1, the batch dimension`);
    }
    const shape = spec.shape.map(Number);
    if (shape.some((size) => !Number.isSafeInteger(size) || size < -1)) {
      throw new SpecError(`${where}: shape [${shape.join(",")}] has a size below -1 or beyond 2^53`);
    }
    return { name: spec.name, datatype: spec.datatype, shape, optional: spec.optional };
  });
}

function viewPlan(view: FeatureView, index: number, inputs: readonly TensorPlan[]): ViewPlan {
  const where = `serving.views[${index}] "${view.name}"`;
  const entity = inputs.find((input) => input.name === view.entityInput);
  if (entity === undefined) throw new SpecError(`${where}: entity_input "${view.entityInput}" is not an input`);
  if (!ENTITY_DATATYPES.includes(entity.datatype)) {
    throw new SpecError(
      `${where}: entity_input "${entity.name}" is ${entity.datatype}; entity ids are one of ${ENTITY_DATATYPES.join(", ")}`,
    );
  }
  if (entity.optional) throw new SpecError(`${where}: entity_input "${entity.name}" must not be optional`);
  if (!entity.shape.slice(1).every((size) => size === 1)) {
    throw new SpecError(`${where}: entity_input "${entity.name}" must hold one id per row, shape [-1] or [-1,1]`);
  }
  if (view.width < 1) throw new SpecError(`${where}: width must be at least 1`);
  return { name: view.name, width: view.width, entityInput: view.entityInput };
}

/**
 * Each upstream tensor is the input of that name, else the view of that name; with a transform the one that is left is
 * the transform's result.
 */
function upstreamPlan(
  inputs: readonly TensorPlan[],
  views: readonly ViewPlan[],
  declared: readonly TensorPlan[] | undefined,
  transform: string,
): UpstreamPlan[] {
  if (transform !== "" && views.length === 0)
    throw new SpecError(`serving.transform: "${transform}" needs views to read from`);
  if (declared === undefined) {
    if (views.length > 0) throw new SpecError("serving.upstream_inputs: must be named when the version has views");
    return inputs.map((tensor) => ({ tensor, source: { kind: "input" } }));
  }
  const plans = declared.map((tensor) => ({ tensor, source: sourceOf(tensor, inputs, views, transform) }));
  const made = plans.filter((plan) => plan.source.kind === "transform");
  if (transform !== "" && made.length !== 1) {
    throw new SpecError(
      `serving.upstream_inputs: the transform "${transform}" makes exactly one tensor, not ${made.length}`,
    );
  }
  return plans;
}

function sourceOf(
  tensor: TensorPlan,
  inputs: readonly TensorPlan[],
  views: readonly ViewPlan[],
  transform: string,
): UpstreamSource {
  const where = `serving.upstream_inputs "${tensor.name}"`;
  const input = inputs.find((candidate) => candidate.name === tensor.name);
  if (input !== undefined) {
    if (input.datatype !== tensor.datatype)
      throw new SpecError(`${where}: ${tensor.datatype}, but the input is ${input.datatype}`);
    return { kind: "input" };
  }
  const index = views.findIndex((view) => view.name === tensor.name);
  if (index < 0 && transform === "") throw new SpecError(`${where}: neither an input nor a view has this name`);
  if (tensor.datatype !== "FP32" || tensor.shape.length !== 2 || (tensor.shape[1] ?? 0) < 1) {
    throw new SpecError(`${where}: features are FP32 [-1,width]`);
  }
  if (index < 0) return { kind: "transform" };
  if (tensor.shape[1] !== views[index]?.width)
    throw new SpecError(`${where}: the view has ${views[index]?.width} values per row`);
  return { kind: "view", index };
}

/** The module must be the one that the spec was written for. */
function checkTransform(
  name: string,
  transform: Transform | undefined,
  views: readonly ViewPlan[],
  upstream: readonly UpstreamPlan[],
): void {
  if (name === "") return;
  if (transform === undefined) throw new SpecError(`serving.transform: "${name}" is not loaded`);
  const widths = views.map((view) => view.width).join(",");
  if (transform.viewWidths.join(",") !== widths) {
    throw new SpecError(
      `serving.views: widths ${widths}, but transform "${name}" takes ${transform.viewWidths.join(",")}`,
    );
  }
  const made = upstream.find((plan) => plan.source.kind === "transform")?.tensor;
  if (made?.shape[1] === transform.outputWidth) return;
  throw new SpecError(
    `serving.upstream_inputs "${made?.name}": width ${made?.shape[1]}, but transform "${name}" makes ${transform.outputWidth}`,
  );
}

function queueLimits(spec: ServingSpec, maxWaitingBytes: number): QueueLimits {
  const batching = spec.batching;
  const bounded = (field: string, value: number, fallback: number, max: number): number => {
    if (value > max) throw new SpecError(`serving.batching.${field}: ${value} is more than the limit of ${max}`);
    return value === 0 ? fallback : value;
  };
  return {
    maxBatchRows: bounded("max_batch_size", batching?.maxBatchSize ?? 0, 1, MAX_BATCH_ROWS),
    maxDelayMs: bounded("max_queue_delay_us", batching?.maxQueueDelayUs ?? 0, 0, MAX_QUEUE_DELAY_US) / 1000,
    maxWaiting: bounded("max_queue_size", batching?.maxQueueSize ?? 0, DEFAULT_QUEUE_SIZE, MAX_QUEUE_SIZE),
    maxInFlight: bounded("max_in_flight", batching?.maxInFlight ?? 0, 1, MAX_IN_FLIGHT),
    maxWaitingBytes,
  };
}

function cacheBytes(spec: ServingSpec): number | undefined {
  if (spec.cache?.enabled !== true) return undefined;
  const bytes = spec.cache.maxBytes;
  if (bytes > BigInt(MAX_CACHE_BYTES))
    throw new SpecError(`serving.cache.max_bytes: ${bytes} is more than ${MAX_CACHE_BYTES}`);
  return bytes === 0n ? DEFAULT_CACHE_BYTES : Number(bytes);
}

function planDigest(version: ModelVersion, spec: ServingSpec, transform: Transform | undefined): string {
  const hash = createHash("sha256");
  const parts = [`${version.model}:${version.version}`, version.artifactDigest, transform?.digest ?? ""];
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}:`).update(part);
  return hash.update(ServingSpec.encode(spec).finish()).digest("hex");
}
