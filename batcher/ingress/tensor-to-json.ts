import { isUtf8 } from "node:buffer";
import type { Datatype, Tensor } from "../request.js";
import { badInput, quote } from "./bad-input.js";
import { elementBytes } from "./datatype.js";

/**
 * JSON texts of a tensor's elements in row-major order: 64-bit integers exact, floats as the shortest text that reads
 * back to the same value of their own width, BYTES as UTF-8 strings.
 * @param base64 write BYTES as `{"b64": "..."}` (TF-Serving's form for outputs named `*_bytes`)
 * @throws PredictError `bad_input` naming the output where JSON has no form for it
 * @throws Error when the data does not match the shape, which only a broken upstream can cause
 */
export function elementTexts(tensor: Tensor, base64 = false): string[] {
  const { name, datatype, shape, data } = tensor;
  const elements = shape.reduce((product, size) => product * size, 1);
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  if (datatype === "BYTES") return byteTexts(bytes, name, elements, base64);
  checkJsonDatatype(name, datatype);
  const width = elementBytes(datatype);
  if (bytes.length !== elements * width) {
    throw new Error(`output ${name} has ${bytes.length} bytes for ${elements} elements of ${datatype}`);
  }
  const texts = new Array<string>(elements);
  for (let index = 0; index < elements; index += 1)
    texts[index] = elementText(bytes, index * width, datatype, name, index);
  return texts;
}

/** Refuses, before any work is done, what JSON cannot carry. */
export function checkJsonDatatype(name: string, datatype: Datatype): void {
  if (datatype !== "FP16" && datatype !== "BF16") return;
  throw badInput(
    `output ${quote(name)}: ${datatype} has no JSON form; ask for it in binary (KServe v2 binary_data, or gRPC)`,
  );
}

function elementText(bytes: Buffer, at: number, datatype: Datatype, output: string, index: number): string {
  switch (datatype) {
    case "BOOL":
      return bytes[at] === 0 ? "false" : "true";
    case "UINT8":
      return `${bytes[at]}`;
    case "INT8":
      return `${bytes.readInt8(at)}`;
    case "UINT16":
      return `${bytes.readUInt16LE(at)}`;
    case "INT16":
      return `${bytes.readInt16LE(at)}`;
    case "UINT32":
      return `${bytes.readUInt32LE(at)}`;
    case "INT32":
      return `${bytes.readInt32LE(at)}`;
    case "UINT64":
      return `${bytes.readBigUInt64LE(at)}`;
    case "INT64":
      return `${bytes.readBigInt64LE(at)}`;
    case "FP32":
      return floatText(bytes.readFloatLE(at), float32Text, output, index);
    case "FP64":
      return floatText(bytes.readDoubleLE(at), float64Text, output, index);
    default:
      throw new Error(`output ${output} has the datatype ${datatype}, which has no JSON form`);
  }
}

function floatText(value: number, print: (value: number) => string, output: string, index: number): string {
  if (Number.isFinite(value)) return print(value);
  throw badInput(
    `output ${quote(output)}: element ${index} is ${value}, which JSON cannot carry; ask for it in binary (KServe v2 binary_data, or gRPC)`,
  );
}

/** Shortest text of a double, with a fraction or exponent so that readers see a float. */
export function float64Text(value: number): string {
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const text = `${value}`;
  return /[.e]/.test(text) ? text : `${text}.0`;
}

/** Shortest text that reads back to the same FP32. Every FP32 needs 6 to 9 significant digits. */
export function float32Text(value: number): string {
  // toPrecision drops the sign of zero.
  if (value === 0) return float64Text(value);
  for (let digits = 6; digits < 9; digits += 1) {
    const rounded = Number(value.toPrecision(digits));
    if (Math.fround(rounded) === value) return float64Text(rounded);
  }
  return float64Text(Number(value.toPrecision(9)));
}

function byteTexts(bytes: Buffer, output: string, elements: number, base64: boolean): string[] {
  const texts: string[] = [];
  let at = 0;
  for (let index = 0; index < elements; index += 1) {
    const length = bytes.length - at >= 4 ? bytes.readUInt32LE(at) : Number.POSITIVE_INFINITY;
    if (length > bytes.length - at - 4) throw new Error(`output ${output} is cut off at element ${index}`);
    const element = bytes.subarray(at + 4, at + 4 + length);
    at += 4 + length;
    if (base64) texts.push(`{"b64":"${element.toString("base64")}"}`);
    else if (isUtf8(element)) texts.push(JSON.stringify(element.toString("utf8")));
    else {
      throw badInput(
        `output ${quote(output)}: element ${index} is not UTF-8, so JSON cannot carry it; ask for it in binary (KServe v2 binary_data, or gRPC)`,
      );
    }
  }
  if (at !== bytes.length) throw new Error(`output ${output} has ${bytes.length - at} bytes too many`);
  return texts;
}
