import type { Datatype } from "../request.js";
import { badInput, formatShape, quote } from "./bad-input.js";
import { elementBytes, LARGE_INTEGER_RANGE, SMALL_INTEGER_RANGE } from "./datatype.js";
import type { InputPayload } from "./infer-call.js";
import { describeJson, isJsonArray, isJsonObject, JsonNumber, type JsonValue } from "./json/value.js";

type JsonPayload = Extract<InputPayload, { kind: "json" }>;

/** Digits of the longest 64-bit integer, with sign. */
const MAX_INTEGER_CHARS = 20;

/** Takes the elements of one tensor in row-major order; says what is wrong with a value, or nothing. */
interface ElementSink {
  put(value: JsonValue, index: number): string | undefined;
  finish(): Uint8Array;
}

/**
 * Writes JSON values as raw little-endian bytes, exactly: a value that the datatype cannot hold is an error.
 * @param elements product of the shape, already bounded
 * @throws PredictError `bad_input` naming the input and the element
 */
export function tensorFromJson(
  payload: JsonPayload,
  input: string,
  datatype: Datatype,
  shape: readonly number[],
  elements: number,
): Uint8Array {
  const nest = payload.nest ?? [elements];
  if (payload.nest === undefined && payload.values.length !== elements) {
    throw badInput(
      `input ${quote(input)}: expected ${elements} elements for shape ${formatShape(shape)}, got ${payload.values.length} (shape product ${elements}, ${payload.values.length} element${payload.values.length === 1 ? "" : "s"})`,
    );
  }
  const sink = createSink(datatype, input, elements, payload.base64);
  let index = 0;
  const fill = (values: readonly JsonValue[], depth: number): void => {
    if (values.length !== nest[depth]) {
      throw badInput(
        `input ${quote(input)}: an array of ${values.length} at nesting level ${depth} near element ${index} where the shape ${formatShape(shape)} wants ${nest[depth]}; rows must be equally long`,
      );
    }
    const inner = depth + 1 < nest.length;
    for (const value of values) {
      if (inner && isJsonArray(value)) {
        fill(value, depth + 1);
        continue;
      }
      const problem = inner
        ? `${describeJson(value)} where an array of ${nest[depth + 1]} belongs`
        : sink.put(value, index);
      if (problem !== undefined) throw badInput(`input ${quote(input)}: element ${index} is ${problem}`);
      index += 1;
    }
  };
  fill(payload.values, 0);
  return sink.finish();
}

/** Lengths of nested arrays along the first items; what a rectangular value's shape must be. */
export function nestOf(values: readonly JsonValue[]): number[] {
  const nest = [values.length];
  for (let first = values[0]; isJsonArray(first); first = first[0]) nest.push(first.length);
  return nest;
}

function createSink(datatype: Datatype, input: string, elements: number, base64: boolean): ElementSink {
  if (datatype === "BYTES") return new BytesSink(base64);
  if (datatype === "FP16" || datatype === "BF16") {
    throw badInput(
      `input ${quote(input)}: ${datatype} has no JSON form; send it in binary (KServe v2 binary_data_size, or gRPC)`,
    );
  }
  return new FixedSink(datatype, elements);
}

class FixedSink implements ElementSink {
  private readonly out: Buffer;
  private readonly width: number;

  constructor(
    private readonly datatype: Datatype,
    elements: number,
  ) {
    this.width = elementBytes(datatype);
    this.out = Buffer.allocUnsafe(elements * this.width);
  }

  put(value: JsonValue, index: number): string | undefined {
    const at = index * this.width;
    if (this.datatype === "BOOL") {
      if (typeof value !== "boolean") return `${describeJson(value)}; BOOL takes true or false`;
      this.out[at] = value ? 1 : 0;
      return undefined;
    }
    if (!(value instanceof JsonNumber)) return `${describeJson(value)}; ${this.datatype} takes numbers`;
    if (this.datatype === "FP32" || this.datatype === "FP64") return this.putFloat(value, at);
    return this.putInteger(value, at);
  }

  finish(): Uint8Array {
    return this.out;
  }

  private putFloat(number: JsonNumber, at: number): string | undefined {
    const { value } = number;
    const stored = this.datatype === "FP32" ? Math.fround(value) : value;
    if (!Number.isFinite(stored)) return `${shorten(number.text)}, beyond the range of ${this.datatype}`;
    if (this.datatype === "FP32") this.out.writeFloatLE(stored, at);
    else this.out.writeDoubleLE(stored, at);
    return undefined;
  }

  private putInteger(number: JsonNumber, at: number): string | undefined {
    if (!number.integral) {
      return `${shorten(number.text)}; ${this.datatype} takes integers without fraction or exponent`;
    }
    const large = LARGE_INTEGER_RANGE[this.datatype];
    if (large !== undefined) {
      const value = number.length <= MAX_INTEGER_CHARS ? BigInt(number.text) : undefined;
      if (value === undefined || value < large[0] || value > large[1]) return this.outOfRange(number.text, large);
      this.out.writeBigUInt64LE(BigInt.asUintN(64, value), at);
      return undefined;
    }
    const { value } = number;
    const range = SMALL_INTEGER_RANGE[this.datatype] as readonly [number, number];
    if (value < range[0] || value > range[1]) return this.outOfRange(number.text, range);
    if (range[0] < 0) this.out.writeIntLE(value, at, this.width);
    else this.out.writeUIntLE(value, at, this.width);
    return undefined;
  }

  private outOfRange(text: string, range: readonly [number | bigint, number | bigint]): string {
    return `${shorten(text)}; ${this.datatype} takes ${range[0]} to ${range[1]}`;
  }
}

/** Strings as UTF-8, each behind its 4-byte little-endian length. */
class BytesSink implements ElementSink {
  private readonly parts: Buffer[] = [];

  constructor(private readonly base64: boolean) {}

  put(value: JsonValue): string | undefined {
    let element: Buffer;
    if (typeof value === "string") element = Buffer.from(value, "utf8");
    else {
      const text = isJsonObject(value) && value.size === 1 ? value.get("b64") : undefined;
      if (typeof text !== "string" || !this.base64) {
        return `${describeJson(value)}; BYTES takes strings${this.base64 ? ' or {"b64": "..."}' : ""}`;
      }
      element = Buffer.from(text, "base64");
      // Buffer.from skips what it does not understand; only canonical text survives the way back.
      if (element.toString("base64") !== text) {
        return "not base64; the standard alphabet (+ and /) with padding is taken, the URL-safe one is not";
      }
    }
    const length = Buffer.allocUnsafe(4);
    length.writeUInt32LE(element.length);
    this.parts.push(length, element);
    return undefined;
  }

  finish(): Uint8Array {
    return Buffer.concat(this.parts);
  }
}

function shorten(text: string): string {
  return text.length > 40 ? `${text.slice(0, 37)}...` : text;
}
