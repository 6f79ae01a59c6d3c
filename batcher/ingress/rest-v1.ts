import type { Tensor } from "../request.js";
import { badInput, formatShape, quote, quoteAll } from "./bad-input.js";
import type { CompiledSpec, CompiledTensor } from "./compiled-spec.js";
import type { InferCall, InferInput } from "./infer-call.js";
import { parseJson } from "./json/parse.js";
import { describeJson, isJsonArray, isJsonObject, type JsonObject, type JsonValue } from "./json/value.js";
import type { IngressLimits } from "./limits.js";
import { nestOf } from "./tensor-from-json.js";
import { checkJsonDatatype, elementTexts } from "./tensor-to-json.js";
import { zeroRows } from "./validate.js";

/*
 * TF-Serving's REST predict API (https://www.tensorflow.org/tfx/serving/api_rest#predict_api): `instances` (one value per
 * row) is answered with `predictions`, `inputs` (one value per tensor) with `outputs`.
 */

const KEYS: ReadonlySet<string> = new Set(["signature_name", "instances", "inputs"]);
const DEFAULT_SIGNATURE = "serving_default";
/** TF-Serving writes outputs with such a name as base64 objects. */
const BASE64_SUFFIX = "_bytes";

export type PredictLayout = "row" | "column";

export interface PredictV1 {
  readonly call: InferCall;
  readonly layout: PredictLayout;
}

/**
 * Reads a predict body. Datatypes come from the spec, because this protocol has none.
 * @throws PredictError `bad_input`
 */
export function decodePredictV1(body: Buffer, spec: CompiledSpec, limits: IngressLimits): PredictV1 {
  const root = parseJson(body, "body", limits);
  if (!isJsonObject(root)) {
    throw badInput(`body is ${describeJson(root)}; send an object with "instances" or "inputs"`);
  }
  const unknown = [...root.keys()].filter((key) => !KEYS.has(key));
  if (unknown.length > 0)
    throw badInput(`body has unknown keys ${quoteAll(unknown)}; known are ${quoteAll([...KEYS])}`);
  checkSignature(root.get("signature_name"));
  const instances = root.get("instances");
  const columns = root.get("inputs");
  if ((instances === undefined) === (columns === undefined)) {
    throw badInput(`body must have either "instances" (rows) or "inputs" (columns)`);
  }
  // Better before the work than after it.
  for (const output of spec.outputs) checkJsonDatatype(output.name, output.datatype);
  if (instances !== undefined) return { layout: "row", call: toCall(decodeRows(instances, spec)) };
  return { layout: "column", call: toCall(decodeColumns(columns as JsonValue, spec)) };
}

function toCall(inputs: readonly InferInput[]): InferCall {
  return { modelName: "", modelVersion: "", id: "", parameters: new Map(), inputs, outputs: [] };
}

function checkSignature(signature: JsonValue | undefined): void {
  if (signature === undefined || signature === "" || signature === DEFAULT_SIGNATURE) return;
  const sent = typeof signature === "string" ? quote(signature) : describeJson(signature);
  throw badInput(`signature_name is ${sent}; a model has one signature, ${quote(DEFAULT_SIGNATURE)}`);
}

function decodeRows(instances: JsonValue, spec: CompiledSpec): InferInput[] {
  if (!isJsonArray(instances))
    throw badInput(`"instances" is ${describeJson(instances)}; send a list with one item per row`);
  const first = instances[0];
  if (first === undefined) throw zeroRows(spec.inputs[0]?.name ?? "");
  if (isJsonObject(first) && !isBase64(first)) return decodeNamedRows(instances, first, spec);
  return [toInput(onlyInput(spec, "instances").name, instances, spec)];
}

/** Rows as objects with one member per input; all rows must have the same members. */
function decodeNamedRows(instances: readonly JsonValue[], first: JsonObject, spec: CompiledSpec): InferInput[] {
  const columns = new Map<string, JsonValue[]>();
  for (const name of first.keys()) columns.set(name, []);
  instances.forEach((row, index) => {
    if (!isJsonObject(row))
      throw badInput(`"instances" row ${index} is ${describeJson(row)}, the first one is an object`);
    for (const [name, column] of columns) {
      const value = row.get(name);
      if (value === undefined) throw badInput(`"instances" row ${index} lacks ${quote(name)}, which the first row has`);
      column.push(value);
    }
    if (row.size !== columns.size) {
      const extra = [...row.keys()].filter((name) => !columns.has(name));
      throw badInput(`"instances" row ${index} has ${quoteAll(extra)}, which the first row lacks`);
    }
  });
  return [...columns].map(([name, values]) => toInput(name, values, spec));
}

function decodeColumns(columns: JsonValue, spec: CompiledSpec): InferInput[] {
  if (!isJsonObject(columns) || isBase64(columns)) return [columnInput(onlyInput(spec, "inputs").name, columns, spec)];
  return [...columns].map(([name, value]) => columnInput(name, value, spec));
}

function columnInput(name: string, value: JsonValue, spec: CompiledSpec): InferInput {
  if (isJsonArray(value)) return toInput(name, value, spec);
  // A bare value has no batch dimension; the shape check says so in the same words as on the other doors.
  return { name, datatype: undefined, shape: [], payload: { kind: "json", values: [value], nest: [1], base64: true } };
}

function toInput(name: string, values: readonly JsonValue[], spec: CompiledSpec): InferInput {
  const nest = nestOf(values);
  const shape = shapeOf(nest, spec.inputByName.get(name));
  return { name, datatype: undefined, shape, payload: { kind: "json", values, nest, base64: true } };
}

/**
 * Shape of nested arrays. Rows may leave out trailing dimensions of size 1: `[196, 242]` is two rows of an input
 * `[-1,1]`.
 */
function shapeOf(nest: readonly number[], tensor: CompiledTensor | undefined): readonly number[] {
  if (tensor === undefined || nest.length >= tensor.shape.length) return nest;
  if (nest[0] === 0) return [0, ...tensor.shape.slice(1).map((size) => Math.max(size, 0))];
  const missing = tensor.shape.slice(nest.length);
  return missing.every((size) => size === 1) ? [...nest, ...missing] : nest;
}

function onlyInput(spec: CompiledSpec, key: string): CompiledTensor {
  const required = spec.inputs.filter((tensor) => !tensor.optional);
  const only = required.length === 0 ? spec.inputs[0] : required[0];
  if (required.length > 1 || only === undefined) {
    const names = quoteAll(spec.inputs.map(({ name }) => name));
    throw badInput(`"${key}" has values without names, but the model has several inputs; send objects with ${names}`);
  }
  return only;
}

function isBase64(value: JsonObject): boolean {
  return value.size === 1 && typeof value.get("b64") === "string";
}

/**
 * Writes the answer. One output stands for itself, several are named; every value keeps its full shape.
 * @throws PredictError `bad_input` for values that JSON cannot carry
 */
export function encodePredictV1(outputs: readonly Tensor[], layout: PredictLayout): Buffer {
  const columns = outputs.map((tensor) => ({ tensor, values: nestedTexts(tensor) }));
  const single = columns.length === 1 ? columns[0] : undefined;
  if (layout === "column") {
    if (single !== undefined) return Buffer.from(`{"outputs":${joinColumn(single.values, single.tensor)}}`);
    const members = columns.map(({ tensor, values }) => `${JSON.stringify(tensor.name)}:${joinColumn(values, tensor)}`);
    return Buffer.from(`{"outputs":{${members.join(",")}}}`);
  }
  const rows = countRows(outputs);
  if (single !== undefined) return Buffer.from(`{"predictions":[${single.values.join(",")}]}`);
  const texts: string[] = [];
  for (let row = 0; row < rows; row += 1) {
    texts.push(`{${columns.map(({ tensor, values }) => `${JSON.stringify(tensor.name)}:${values[row]}`).join(",")}}`);
  }
  return Buffer.from(`{"predictions":[${texts.join(",")}]}`);
}

function joinColumn(values: readonly string[], tensor: Tensor): string {
  return tensor.shape.length === 0 ? (values[0] ?? "null") : `[${values.join(",")}]`;
}

function countRows(outputs: readonly Tensor[]): number {
  const rows = outputs[0]?.shape[0] ?? 0;
  for (const { name, shape } of outputs) {
    if (shape.length === 0 || shape[0] !== rows) {
      throw badInput(
        `output ${quote(name)} has the shape ${formatShape(shape)}, not one value per row; send "inputs" (columns) instead of "instances"`,
      );
    }
  }
  return rows;
}

/** Texts of the slices along the first dimension; of the only element for a scalar. */
function nestedTexts(tensor: Tensor): string[] {
  let texts = elementTexts(tensor, tensor.datatype === "BYTES" && tensor.name.endsWith(BASE64_SUFFIX));
  for (let axis = tensor.shape.length - 1; axis > 0; axis -= 1) {
    const width = tensor.shape[axis] as number;
    const groups = tensor.shape.slice(0, axis).reduce((product, size) => product * size, 1);
    const outer: string[] = [];
    for (let group = 0; group < groups; group += 1) {
      outer.push(`[${texts.slice(group * width, (group + 1) * width).join(",")}]`);
    }
    texts = outer;
  }
  return texts;
}
