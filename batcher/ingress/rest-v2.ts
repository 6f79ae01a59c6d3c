import type { ParameterValue, Tensor } from "../request.js";
import { badInput, quote, quoteAll } from "./bad-input.js";
import type { CompiledSpec } from "./compiled-spec.js";
import type { Dimension, InferCall, InferInput, InputPayload } from "./infer-call.js";
import type { InferAnswer } from "./infer-envelope.js";
import { parseJson } from "./json/parse.js";
import { describeJson, isJsonArray, isJsonObject, JsonNumber, type JsonObject, type JsonValue } from "./json/value.js";
import type { IngressLimits } from "./limits.js";
import { checkTensorParameters, parseParameters } from "./parameters.js";
import { checkJsonDatatype, elementTexts, float64Text } from "./tensor-to-json.js";

/*
 * KServe v2 over HTTP (https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol) with the binary
 * tensor data extension: a JSON head of `inference-header-content-length` bytes, then the raw tensors in order.
 */

const REQUEST_KEYS: ReadonlySet<string> = new Set(["id", "parameters", "inputs", "outputs"]);
const INPUT_KEYS: ReadonlySet<string> = new Set(["name", "shape", "datatype", "parameters", "data"]);
const OUTPUT_KEYS: ReadonlySet<string> = new Set(["name", "parameters"]);

export interface InferV2 {
  readonly call: InferCall;
  /** Whether the caller wants an output in binary form. */
  readonly isBinary: (output: string) => boolean;
}

export interface InferV2Body {
  readonly body: Buffer;
  readonly contentType: string;
  /** Bytes of the JSON head when raw tensors follow; undefined when the whole body is JSON. */
  readonly headBytes: number | undefined;
}

/**
 * Reads an infer body.
 * @param headLength text of `inference-header-content-length`, undefined without that header
 * @throws PredictError `bad_input`
 */
export function decodeInferV2(
  body: Buffer,
  headLength: string | undefined,
  spec: CompiledSpec,
  limits: IngressLimits,
): InferV2 {
  const headBytes = headLength === undefined ? body.length : parseHeadLength(headLength, body.length);
  const root = parseJson(body.subarray(0, headBytes), headLength === undefined ? "body" : "JSON head", limits);
  if (!isJsonObject(root)) throw badInput(`body is ${describeJson(root)}; send an object with "inputs"`);
  checkKeys(root, REQUEST_KEYS, "body");
  const parameters = parseParameters(root.get("parameters"), "the request", limits);
  const binaryDefault = takeBoolean(parameters, "binary_data_output", "the request") ?? false;
  const binary = new BinaryTail(body.subarray(headBytes));
  const inputs = asList(root.get("inputs"), "inputs", limits.maxTensors).map((item, index) =>
    decodeInput(item, index, binary, limits),
  );
  binary.checkUsed();
  const binaryByOutput = new Map<string, boolean>();
  const outputs = asList(root.get("outputs") ?? [], "outputs", limits.maxTensors).map((item, index) => {
    const output = decodeOutput(item, index, limits);
    binaryByOutput.set(output.name, output.binary ?? binaryDefault);
    return output.name;
  });
  const isBinary = (output: string) => binaryByOutput.get(output) ?? binaryDefault;
  // Better before the work than after it.
  for (const { name, datatype } of spec.outputs) {
    const wanted = outputs.length === 0 || outputs.includes(name);
    if (wanted && !isBinary(name)) checkJsonDatatype(name, datatype);
  }
  const call = { modelName: "", modelVersion: "", id: decodeId(root.get("id"), limits), parameters, inputs, outputs };
  return { call, isBinary };
}

function parseHeadLength(text: string, bodyBytes: number): number {
  const length = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (!(length > 0 && length <= bodyBytes)) {
    throw badInput(
      `inference-header-content-length is ${quote(text)}; send the byte length of the JSON head, from 1 to the body's ${bodyBytes}`,
    );
  }
  return length;
}

/** Raw tensors behind the JSON head, handed out in order. */
class BinaryTail {
  private at = 0;

  constructor(private readonly bytes: Buffer) {}

  take(size: number, input: string): Buffer {
    const left = this.bytes.length - this.at;
    if (size > left) {
      throw badInput(
        `input ${quote(input)}: binary_data_size is ${size}, but ${left} bytes are left behind the JSON head; check inference-header-content-length`,
      );
    }
    this.at += size;
    return this.bytes.subarray(this.at - size, this.at);
  }

  checkUsed(): void {
    const left = this.bytes.length - this.at;
    if (left > 0) {
      throw badInput(`${left} bytes behind the JSON head belong to no input; set binary_data_size on the inputs`);
    }
  }
}

function decodeId(value: JsonValue | undefined, limits: IngressLimits): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw badInput(`id is ${describeJson(value)}; send a string`);
  if (Buffer.byteLength(value) > limits.maxIdBytes)
    throw badInput(`id is longer than ${limits.maxIdBytes} bytes; shorten it`);
  return value;
}

function decodeInput(item: JsonValue, index: number, tail: BinaryTail, limits: IngressLimits): InferInput {
  const { object, name } = namedObject(item, `inputs[${index}]`, INPUT_KEYS, limits);
  const owner = `input ${quote(name)}`;
  const datatype = object.get("datatype");
  if (typeof datatype !== "string") throw badInput(`${owner}: datatype is missing; send for example "FP32"`);
  const shape = decodeShape(object.get("shape"), owner, limits);
  const parameters = parseParameters(object.get("parameters"), owner, limits);
  const binarySize = takeSize(parameters, owner);
  checkTensorParameters(parameters, owner);
  const data = object.get("data");
  if (binarySize !== undefined) {
    if (data !== undefined) throw badInput(`${owner}: data and binary_data_size are both there; send one of them`);
    return { name, datatype, shape, payload: { kind: "raw", bytes: tail.take(binarySize, name) } };
  }
  if (!isJsonArray(data)) {
    const sent = data === undefined ? "missing" : describeJson(data);
    throw badInput(`${owner}: data is ${sent}; send an array, or binary_data_size and raw bytes`);
  }
  return { name, datatype, shape, payload: jsonPayload(data, shape) };
}

/** Data may be one flat list or nested like the shape; both are in row-major order. */
function jsonPayload(values: readonly JsonValue[], shape: readonly Dimension[]): InputPayload {
  const nest = isJsonArray(values[0]) ? shape.map(Number) : undefined;
  return { kind: "json", values, nest, base64: false };
}

function decodeShape(value: JsonValue | undefined, owner: string, limits: IngressLimits): Dimension[] {
  if (!isJsonArray(value)) {
    throw badInput(
      `${owner}: shape is ${value === undefined ? "missing" : describeJson(value)}; send an array of integers`,
    );
  }
  if (value.length > limits.maxRank) {
    throw badInput(`${owner}: shape has more than ${limits.maxRank} dimensions; the limit is ${limits.maxRank}`);
  }
  return value.map((dimension, index) => {
    if (!(dimension instanceof JsonNumber)) {
      throw badInput(`${owner}: shape[${index}] is ${describeJson(dimension)}; send an integer`);
    }
    if (!dimension.integral || dimension.length > 20) {
      throw badInput(`${owner}: shape[${index}] is ${dimension.text.slice(0, 40)}; send an integer`);
    }
    const size = dimension.value;
    return Number.isSafeInteger(size) ? size : BigInt(dimension.text);
  });
}

function decodeOutput(
  item: JsonValue,
  index: number,
  limits: IngressLimits,
): { name: string; binary: boolean | undefined } {
  const { object, name } = namedObject(item, `outputs[${index}]`, OUTPUT_KEYS, limits);
  const owner = `output ${quote(name)}`;
  const parameters = parseParameters(object.get("parameters"), owner, limits);
  const binary = takeBoolean(parameters, "binary_data", owner);
  checkTensorParameters(parameters, owner);
  return { name, binary };
}

function namedObject(
  item: JsonValue,
  where: string,
  keys: ReadonlySet<string>,
  limits: IngressLimits,
): { object: JsonObject; name: string } {
  if (!isJsonObject(item)) throw badInput(`${where} is ${describeJson(item)}; send an object`);
  checkKeys(item, keys, where);
  const name = item.get("name");
  if (typeof name !== "string") throw badInput(`${where}: name is missing; send a string`);
  if (Buffer.byteLength(name) > limits.maxNameBytes) {
    throw badInput(`${where}: name is longer than ${limits.maxNameBytes} bytes; shorten it`);
  }
  return { object: item, name };
}

function checkKeys(object: JsonObject, known: ReadonlySet<string>, where: string): void {
  const unknown = [...object.keys()].filter((key) => !known.has(key));
  if (unknown.length > 0)
    throw badInput(`${where} has unknown keys ${quoteAll(unknown)}; known are ${quoteAll([...known])}`);
}

function asList(value: JsonValue | undefined, key: string, limit: number): readonly JsonValue[] {
  if (!isJsonArray(value)) {
    throw badInput(`"${key}" is ${value === undefined ? "missing" : describeJson(value)}; send an array`);
  }
  if (value.length > limit) throw badInput(`"${key}" has ${value.length} entries; the limit is ${limit}`);
  return value;
}

function takeBoolean(parameters: Map<string, ParameterValue>, key: string, owner: string): boolean | undefined {
  const value = parameters.get(key);
  if (value === undefined) return undefined;
  if (typeof value !== "boolean") throw badInput(`parameter ${quote(key)} of ${owner} must be true or false`);
  parameters.delete(key);
  return value;
}

function takeSize(parameters: Map<string, ParameterValue>, owner: string): number | undefined {
  const value = parameters.get("binary_data_size");
  if (value === undefined) return undefined;
  if (typeof value !== "bigint" || value < 0n || value > 0xffffffffn) {
    throw badInput(`parameter "binary_data_size" of ${owner} must be a byte count`);
  }
  parameters.delete("binary_data_size");
  return Number(value);
}

/**
 * Writes an infer answer: JSON, and behind it the outputs that were wanted in binary form.
 * @throws PredictError `bad_input` for values that JSON cannot carry
 */
export function encodeInferV2(answer: InferAnswer, isBinary: (output: string) => boolean): InferV2Body {
  const members = [
    `"model_name":${JSON.stringify(answer.modelName)}`,
    `"model_version":${JSON.stringify(answer.modelVersion)}`,
  ];
  if (answer.id !== "") members.push(`"id":${JSON.stringify(answer.id)}`);
  if (answer.parameters.size > 0) members.push(`"parameters":${parametersText(answer.parameters)}`);
  const raw: Uint8Array[] = [];
  const outputs = answer.outputs.map((tensor) => {
    const binary = isBinary(tensor.name);
    if (binary) raw.push(tensor.data);
    return outputText(tensor, binary);
  });
  members.push(`"outputs":[${outputs.join(",")}]`);
  const head = Buffer.from(`{${members.join(",")}}`);
  if (raw.length === 0) return { body: head, contentType: "application/json", headBytes: undefined };
  return {
    body: Buffer.concat([head, ...raw]),
    contentType: "application/octet-stream",
    headBytes: head.length,
  };
}

function outputText(tensor: Tensor, binary: boolean): string {
  const { name, datatype, shape, data } = tensor;
  const head = `"name":${JSON.stringify(name)},"datatype":"${datatype}","shape":[${shape.join(",")}]`;
  if (binary) return `{${head},"parameters":{"binary_data_size":${data.byteLength}}}`;
  return `{${head},"data":[${elementTexts(tensor).join(",")}]}`;
}

function parametersText(parameters: ReadonlyMap<string, ParameterValue>): string {
  const members: string[] = [];
  for (const [key, value] of parameters) members.push(`${JSON.stringify(key)}:${parameterText(value)}`);
  return `{${members.join(",")}}`;
}

function parameterText(value: ParameterValue): string {
  if (typeof value === "string") return JSON.stringify(value);
  // A double that is not finite has no JSON form; its name as text is better than a lost answer.
  if (typeof value === "number") return Number.isFinite(value) ? float64Text(value) : JSON.stringify(`${value}`);
  return `${value}`;
}
