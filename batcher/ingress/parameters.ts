import type { ParameterValue } from "../request.js";
import { badInput, quote } from "./bad-input.js";
import { describeJson, isJsonObject, JsonNumber, type JsonValue } from "./json/value.js";
import type { IngressLimits } from "./limits.js";

export type ParameterMap = Map<string, ParameterValue>;

/** What the binary tensor extension says on tensors; understood on every door, needed on REST only. */
const BINARY_PARAMETERS: ReadonlySet<string> = new Set(["binary_data", "binary_data_size"]);

/**
 * Refuses parameters of a single tensor that would be lost on the way to the model server: requests share batches, so
 * only request-level parameters can be kept apart. Losing one silently would be worse than saying so.
 * @param owner e.g. `input "features"`
 */
export function checkTensorParameters(parameters: ReadonlyMap<string, ParameterValue>, owner: string): void {
  for (const key of parameters.keys()) {
    if (BINARY_PARAMETERS.has(key)) continue;
    const remedy = key.startsWith("shared_memory")
      ? "shared memory does not reach through a mesh; send the data itself"
      : "only request-level parameters are passed on; send it there";
    throw badInput(`${owner}: parameter ${quote(key)} is not supported on a tensor; ${remedy}`);
  }
}

/**
 * Reads a `parameters` object of a REST body. Numbers without fraction and exponent become 64-bit integers, others
 * doubles; nothing is rounded or cut.
 * @param owner e.g. `the request`
 * @throws PredictError `bad_input` naming the key
 */
export function parseParameters(value: JsonValue | undefined, owner: string, limits: IngressLimits): ParameterMap {
  const parameters: ParameterMap = new Map();
  if (value === undefined || value === null) return parameters;
  if (!isJsonObject(value)) throw badInput(`parameters of ${owner} is ${describeJson(value)}; send an object`);
  if (value.size > limits.maxParameters) {
    throw badInput(`more than ${limits.maxParameters} parameters of ${owner}; the limit is ${limits.maxParameters}`);
  }
  for (const [key, item] of value) {
    if (Buffer.byteLength(key) > limits.maxNameBytes) {
      throw badInput(`a parameter's name of ${owner} is longer than ${limits.maxNameBytes} bytes; shorten it`);
    }
    parameters.set(key, parseParameterValue(item, `parameter ${quote(key)} of ${owner}`, limits));
  }
  return parameters;
}

function parseParameterValue(value: JsonValue, what: string, limits: IngressLimits): ParameterValue {
  if (typeof value === "boolean") return value;
  if (typeof value === "string") {
    if (Buffer.byteLength(value) > limits.maxParameterBytes) {
      throw badInput(`${what} is longer than ${limits.maxParameterBytes} bytes; shorten it`);
    }
    return value;
  }
  if (!(value instanceof JsonNumber)) {
    throw badInput(`${what} is ${describeJson(value)}; send a boolean, a number or a string`);
  }
  if (!value.integral) {
    const double = value.value;
    if (!Number.isFinite(double)) throw badInput(`${what} is ${value.text}, beyond FP64; send a smaller number`);
    return double;
  }
  const integer = value.length <= 20 ? BigInt(value.text) : undefined;
  if (integer === undefined || integer < -(2n ** 63n) || integer >= 2n ** 64n) {
    throw badInput(`${what} is beyond 64 bits; send an integer from -2^63 to 2^64-1`);
  }
  return integer;
}
