import type { ServingSpec, TensorSpec } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { Datatype } from "../request.js";
import { isDatatype } from "./datatype.js";

export interface CompiledTensor {
  readonly name: string;
  readonly datatype: Datatype;
  /** Batch dimension first; -1 is any size. */
  readonly shape: readonly number[];
  readonly optional: boolean;
}

/** A ServingSpec in the form in which requests are compared with it. */
export interface CompiledSpec {
  readonly inputs: readonly CompiledTensor[];
  readonly outputs: readonly CompiledTensor[];
  readonly inputByName: ReadonlyMap<string, CompiledTensor>;
  readonly outputByName: ReadonlyMap<string, CompiledTensor>;
  /** Rows of one request; at least 1. */
  readonly maxRows: number;
}

const compiled = new WeakMap<ServingSpec, CompiledSpec>();

/** Compiles a spec, once per object. @throws Error when the registry let through a datatype that does not exist */
export function compileSpec(spec: ServingSpec): CompiledSpec {
  const known = compiled.get(spec);
  if (known !== undefined) return known;
  const inputs = spec.inputs.map(compileTensor);
  const outputs = spec.outputs.map(compileTensor);
  const fresh: CompiledSpec = {
    inputs,
    outputs,
    inputByName: new Map(inputs.map((tensor) => [tensor.name, tensor])),
    outputByName: new Map(outputs.map((tensor) => [tensor.name, tensor])),
    maxRows: Math.max(1, spec.batching?.maxBatchSize ?? 1),
  };
  compiled.set(spec, fresh);
  return fresh;
}

function compileTensor(tensor: TensorSpec): CompiledTensor {
  const { name, datatype, optional } = tensor;
  if (!isDatatype(datatype)) throw new Error(`serving spec: tensor ${name} has the unknown datatype ${datatype}`);
  return { name, datatype, optional, shape: tensor.shape.map(Number) };
}
