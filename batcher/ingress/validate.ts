import type { Tensor } from "../request.js";
import { badInput, formatShape, quote, quoteAll } from "./bad-input.js";
import type { CompiledSpec, CompiledTensor } from "./compiled-spec.js";
import { isDatatype } from "./datatype.js";
import type { Dimension, InferCall, InferInput, InputPayload } from "./infer-call.js";
import type { IngressLimits } from "./limits.js";
import { checkRawContents, countByteElements } from "./raw-contents.js";
import { tensorFromJson } from "./tensor-from-json.js";
import { encodeTypedContents } from "./typed-contents.js";

/** A call that fits the model: inputs in the spec's order, as raw bytes. */
export interface CheckedCall {
  readonly inputs: readonly Tensor[];
  readonly requestedOutputs: readonly string[];
  /** Size of the batch dimension, the same in all inputs. */
  readonly rows: number;
}

/**
 * Compares a decoded call with the model's spec. The order is the same whatever door the call came through, so the same
 * mistake gives the same message everywhere: names, datatypes, shapes, rows, then the values themselves.
 * @throws PredictError `bad_input`
 */
export function checkCall(call: InferCall, spec: CompiledSpec, limits: IngressLimits): CheckedCall {
  const byName = checkNames(call.inputs, spec);
  const present: { input: InferInput; tensor: CompiledTensor; shape: readonly number[]; elements: number }[] = [];
  let rows: number | undefined;
  for (const tensor of spec.inputs) {
    const input = byName.get(tensor.name);
    if (input === undefined) continue;
    checkDatatype(input, tensor);
    const shape = checkShape(input, tensor, limits);
    const elements = countElements(input.name, shape, limits);
    const own = shape[0] as number;
    checkRows(input.name, own, rows, spec.maxRows);
    rows = own;
    present.push({ input, tensor, shape, elements });
  }
  const requestedOutputs = checkOutputs(call.outputs, spec);
  const inputs = present.map(({ input, tensor, shape, elements }) => ({
    name: tensor.name,
    datatype: tensor.datatype,
    shape,
    data: rawBytes(input, tensor, shape, elements),
  }));
  return { inputs, requestedOutputs, rows: rows ?? 0 };
}

function checkNames(inputs: readonly InferInput[], spec: CompiledSpec): Map<string, InferInput> {
  const byName = new Map<string, InferInput>();
  const unknown: string[] = [];
  for (const input of inputs) {
    if (byName.has(input.name)) {
      throw badInput(
        `duplicate input ${quote(input.name)}; send it once, with several rows in its batch dimension (shape [rows, ...])`,
      );
    }
    byName.set(input.name, input);
    if (!spec.inputByName.has(input.name)) unknown.push(input.name);
  }
  const missing = spec.inputs.filter((tensor) => !tensor.optional && !byName.has(tensor.name)).map(({ name }) => name);
  if (missing.length > 0 || unknown.length > 0) {
    const parts = [];
    if (missing.length > 0) parts.push(`missing ${quoteAll(missing)}`);
    if (unknown.length > 0) parts.push(`unknown ${quoteAll(unknown)}`);
    throw badInput(`inputs: ${parts.join(", ")}; the model takes ${describeInputs(spec)}`);
  }
  if (byName.size === 0) throw badInput(`inputs: none; the model takes ${describeInputs(spec)}`);
  return byName;
}

function describeInputs(spec: CompiledSpec): string {
  return spec.inputs
    .slice(0, 16)
    .map(({ name, optional }) => (optional ? `${quote(name)} (optional)` : quote(name)))
    .join(", ");
}

function checkDatatype({ name, datatype }: InferInput, tensor: CompiledTensor): void {
  if (datatype === undefined || datatype === tensor.datatype) return;
  if (!isDatatype(datatype)) {
    throw badInput(`input ${quote(name)}: ${quote(datatype)} is not a KServe v2 datatype; send ${tensor.datatype}`);
  }
  throw badInput(
    `input ${quote(name)}: datatype is ${datatype}, the model takes ${tensor.datatype}; convert the values`,
  );
}

function checkShape(input: InferInput, tensor: CompiledTensor, limits: IngressLimits): readonly number[] {
  const { name, shape } = input;
  // Built only for a refusal.
  const what = () => `input ${quote(name)}: shape ${formatShape(shape)}`;
  if (shape.length > limits.maxRank)
    throw badInput(`${what()} has ${shape.length} dimensions; the limit is ${limits.maxRank}`);
  const sizes = shape.map((dimension, index) => checkDimension(dimension, index, what));
  const wanted = tensor.shape;
  const isRow = sizes.length === wanted.length - 1 && sizes.every((size, index) => fits(size, wanted[index + 1]));
  if (sizes.length === 0 || (isRow && sizes.length !== wanted.length)) {
    throw badInput(
      `${what()}: batch dimension missing; the model takes ${formatShape(wanted)}, so one row is ${formatShape([1, ...wanted.slice(1)])}${describePayload(input, tensor, sizes)}`,
    );
  }
  if (sizes.length !== wanted.length || !sizes.every((size, index) => fits(size, wanted[index]))) {
    // An oversized product is the better message, because no shape of that kind can ever fit.
    countElements(name, sizes, limits);
    throw badInput(
      `${what()} does not fit ${formatShape(wanted)} of the model (-1 is any size)${describePayload(input, tensor, sizes)}`,
    );
  }
  return sizes;
}

function fits(size: number, wanted: number | undefined): boolean {
  return wanted === -1 || wanted === size;
}

function checkDimension(dimension: Dimension, index: number, what: () => string): number {
  if (dimension < 0) throw badInput(`${what()}: dimension ${index} is negative; send the actual size`);
  if (typeof dimension === "bigint")
    throw badInput(`${what()}: dimension ${index} is beyond 2^53; send the actual size`);
  return dimension;
}

/** Callers often put a string's length where the number of strings belongs, so BYTES say both. */
function describePayload({ payload }: InferInput, tensor: CompiledTensor, sizes: readonly number[]): string {
  if (tensor.datatype !== "BYTES") return "";
  const product = sizes.reduce((total, size) => total * size, 1);
  const sent = countSent(payload);
  return ` (shape product ${product}, ${sent} element${sent === 1 ? "" : "s"}; a BYTES shape counts elements, not bytes)`;
}

function countSent(payload: InputPayload): number {
  if (payload.kind === "raw") return countByteElements(payload.bytes);
  if (payload.kind === "typed") return payload.contents.count("BYTES");
  return payload.values.length;
}

/** Product of the shape, compared step by step so that it can neither overflow nor size an allocation. */
function countElements(name: string, shape: readonly number[], limits: IngressLimits): number {
  if (shape.includes(0)) return 0;
  let elements = 1;
  for (const size of shape) {
    elements *= size;
    // Every element takes at least one byte of the message.
    if (elements > limits.maxRequestBytes) {
      throw badInput(
        `input ${quote(name)}: shape ${formatShape(shape)} has more elements than a request can carry (${limits.maxRequestBytes} bytes); send fewer rows`,
      );
    }
  }
  return elements;
}

function checkRows(name: string, own: number, others: number | undefined, maxRows: number): void {
  if (own === 0) throw zeroRows(name);
  if (others !== undefined && own !== others) {
    throw badInput(`input ${quote(name)}: ${own} rows where the inputs before it have ${others}; send equally many`);
  }
  if (own > maxRows) {
    throw badInput(`input ${quote(name)}: ${own} rows, the model's max_batch_size is ${maxRows}; split the request`);
  }
}

/** The refusal of an empty batch. */
export function zeroRows(name: string): Error {
  return badInput(`input ${quote(name)}: batch of 0 rows; send at least one`);
}

function checkOutputs(outputs: readonly string[], spec: CompiledSpec): readonly string[] {
  const unknown = outputs.filter((name) => !spec.outputByName.has(name));
  if (unknown.length > 0) {
    const known = quoteAll(spec.outputs.map(({ name }) => name));
    throw badInput(`requested outputs: unknown ${quoteAll(unknown)}; the model has ${known}`);
  }
  const twice = outputs.find((name, index) => outputs.indexOf(name) !== index);
  if (twice !== undefined) throw badInput(`requested outputs: ${quote(twice)} is there twice; ask for it once`);
  return outputs;
}

function rawBytes(
  { name, payload }: InferInput,
  { datatype }: CompiledTensor,
  shape: readonly number[],
  elements: number,
): Uint8Array {
  switch (payload.kind) {
    case "raw":
      checkRawContents(payload.bytes, name, datatype, shape, elements);
      return payload.bytes;
    case "typed":
      return encodeTypedContents(payload.contents, name, datatype, elements);
    case "json":
      return tensorFromJson(payload, name, datatype, shape, elements);
  }
}
