import { varintLength, WIRE_BYTES, WireWriter } from "../platform/protobuf-wire.js";
import type { ParameterValue, Tensor } from "../request.js";
import { badInput, quote } from "./bad-input.js";
import type { Dimension, InferCall, InferInput, InputPayload } from "./infer-call.js";
import type { IngressLimits } from "./limits.js";
import { checkTensorParameters, type ParameterMap } from "./parameters.js";
import { TypedContents } from "./typed-contents.js";
import { WIRE_FIXED32, WIRE_FIXED64, WIRE_VARINT, WireReader } from "./wire-reader.js";

/*
 * inference.ModelInferRequest and ModelInferResponse, read and written around the tensors: raw contents are slices of the
 * message that arrived and are copied once into the answer. Field numbers are those of proto/inference/grpc_service.proto.
 */

const MESSAGE = "ModelInferRequest";
/** Longest reference or version: the grammar allows 96 characters. */
const MAX_REFERENCE_BYTES = 256;

interface ScannedInput {
  name: string;
  datatype: string;
  shape: Dimension[];
  contents: TypedContents | undefined;
}

/**
 * Reads a ModelInferRequest without touching tensor bytes. Unknown fields are skipped; a model name or version that
 * stands there twice is refused, because the gate has judged the first one.
 * @throws PredictError `bad_input`
 */
export function decodeInferRequest(bytes: Buffer, limits: IngressLimits): InferCall {
  const reader = new WireReader(bytes, MESSAGE);
  const end = bytes.length;
  const seen: { modelName?: string; modelVersion?: string } = {};
  let id = "";
  const parameters: ParameterMap = new Map();
  const inputs: ScannedInput[] = [];
  const outputs: string[] = [];
  const raw: Uint8Array[] = [];
  while (reader.next(end)) {
    switch (reader.field) {
      case 1:
        if (seen.modelName !== undefined) throw badInput(`${MESSAGE}: model_name is there twice; send it once`);
        seen.modelName = readText(reader, end, MAX_REFERENCE_BYTES, "model_name");
        break;
      case 2:
        if (seen.modelVersion !== undefined) throw badInput(`${MESSAGE}: model_version is there twice; send it once`);
        seen.modelVersion = readText(reader, end, MAX_REFERENCE_BYTES, "model_version");
        break;
      case 3:
        id = readText(reader, end, limits.maxIdBytes, "id");
        break;
      case 4:
        readParameter(reader, end, parameters, "the request", limits);
        break;
      case 5:
        checkCount(inputs.length, limits.maxTensors, "inputs");
        inputs.push(readInput(reader, end, limits));
        break;
      case 6:
        checkCount(outputs.length, limits.maxTensors, "outputs");
        outputs.push(readRequestedOutput(reader, end, limits));
        break;
      case 7: {
        checkCount(raw.length, limits.maxTensors, "raw_input_contents");
        reader.expect(WIRE_BYTES, "raw_input_contents");
        const stop = reader.body(end);
        raw.push(bytes.subarray(reader.position, stop));
        reader.position = stop;
        break;
      }
      default:
        reader.skip(end);
    }
  }
  return {
    modelName: seen.modelName ?? "",
    modelVersion: seen.modelVersion ?? "",
    id,
    parameters,
    inputs: withPayloads(inputs, raw, bytes),
    outputs,
  };
}

/** Pairs inputs with their contents: all raw or all typed, as the protocol demands. */
function withPayloads(inputs: readonly ScannedInput[], raw: readonly Uint8Array[], bytes: Buffer): InferInput[] {
  if (raw.length === 0) return inputs.map((input) => withPayload(input, typedPayload(input, bytes)));
  if (raw.length !== inputs.length) {
    throw badInput(
      `raw_input_contents has ${raw.length} entries for ${inputs.length} inputs; send one per input, in the same order`,
    );
  }
  return inputs.map((input, index) => {
    if (input.contents !== undefined) {
      throw badInput(`input ${quote(input.name)}: contents and raw_input_contents are both filled; send one of them`);
    }
    return withPayload(input, { kind: "raw", bytes: raw[index] as Uint8Array });
  });
}

function withPayload({ name, datatype, shape }: ScannedInput, payload: InputPayload): InferInput {
  return { name, datatype, shape, payload };
}

function typedPayload(input: ScannedInput, bytes: Buffer): InputPayload {
  return { kind: "typed", contents: input.contents ?? new TypedContents(bytes) };
}

function checkCount(count: number, limit: number, field: string): void {
  if (count >= limit) throw badInput(`${MESSAGE}: more than ${limit} ${field}; the limit is ${limit}`);
}

function readText(reader: WireReader, end: number, maxBytes: number, name: string): string {
  reader.expect(WIRE_BYTES, name);
  return reader.text(end, maxBytes, name);
}

function readInput(reader: WireReader, end: number, limits: IngressLimits): ScannedInput {
  reader.expect(WIRE_BYTES, "inputs");
  const stop = reader.body(end);
  const input: ScannedInput = { name: "", datatype: "", shape: [], contents: undefined };
  const parameters: ParameterMap = new Map();
  while (reader.next(stop)) {
    switch (reader.field) {
      case 1:
        input.name = readText(reader, stop, limits.maxNameBytes, "an input's name");
        break;
      case 2:
        input.datatype = readText(reader, stop, limits.maxNameBytes, "an input's datatype");
        break;
      case 3:
        readShape(reader, stop, input, limits.maxRank);
        break;
      case 4:
        readParameter(reader, stop, parameters, "an input", limits);
        break;
      case 5:
        input.contents ??= new TypedContents(reader.bytes);
        readContents(reader, stop, input.contents);
        break;
      default:
        reader.skip(stop);
    }
  }
  checkTensorParameters(parameters, `input ${quote(input.name)}`);
  return input;
}

function readShape(reader: WireReader, end: number, input: ScannedInput, maxRank: number): void {
  const packed = reader.wireType === WIRE_BYTES;
  if (!packed) reader.expect(WIRE_VARINT, "shape");
  const stop = packed ? reader.body(end) : end;
  do {
    if (packed && reader.position >= stop) return;
    reader.varint(stop);
    if (input.shape.length >= maxRank) {
      throw badInput(`input ${quote(input.name)}: shape has more than ${maxRank} dimensions; the limit is ${maxRank}`);
    }
    input.shape.push(reader.int64());
  } while (packed);
}

/** Notes where the values are; packed and one-by-one encodings may be mixed. */
function readContents(reader: WireReader, end: number, contents: TypedContents): void {
  reader.expect(WIRE_BYTES, "contents");
  const stop = reader.body(end);
  while (reader.next(stop)) {
    const { field, wireType } = reader;
    if (field > 8) {
      reader.skip(stop);
      continue;
    }
    if (wireType === WIRE_BYTES) {
      const bodyEnd = reader.body(stop);
      checkPacked(reader, field, bodyEnd);
      contents.add(field, reader.position, bodyEnd);
      reader.position = bodyEnd;
      continue;
    }
    const elementType =
      field === 6 ? WIRE_FIXED32 : field === 7 ? WIRE_FIXED64 : field === 8 ? WIRE_BYTES : WIRE_VARINT;
    reader.expect(elementType, "contents");
    const start = reader.position;
    reader.skip(stop);
    contents.add(field, start, reader.position);
  }
}

function checkPacked(reader: WireReader, field: number, bodyEnd: number): void {
  const size = bodyEnd - reader.position;
  const width = field === 6 ? 4 : field === 7 ? 8 : 1;
  if (size % width !== 0) throw reader.broken(`packed contents of ${size} bytes`, reader.position);
  const lastByte = size > 0 ? (reader.bytes[bodyEnd - 1] as number) : 0;
  if (field < 6 && lastByte >= 0x80) throw reader.broken("a varint that is cut off", bodyEnd - 1);
}

function readRequestedOutput(reader: WireReader, end: number, limits: IngressLimits): string {
  reader.expect(WIRE_BYTES, "outputs");
  const stop = reader.body(end);
  let name = "";
  const parameters: ParameterMap = new Map();
  while (reader.next(stop)) {
    if (reader.field === 1) name = readText(reader, stop, limits.maxNameBytes, "an output's name");
    else if (reader.field === 2) readParameter(reader, stop, parameters, "an output", limits);
    else reader.skip(stop);
  }
  checkTensorParameters(parameters, `output ${quote(name)}`);
  return name;
}

/** One entry of `map<string, InferParameter>`. */
function readParameter(
  reader: WireReader,
  end: number,
  into: ParameterMap,
  owner: string,
  limits: IngressLimits,
): void {
  reader.expect(WIRE_BYTES, "parameters");
  const stop = reader.body(end);
  let key = "";
  let value: ParameterValue | undefined;
  while (reader.next(stop)) {
    if (reader.field === 1) key = readText(reader, stop, limits.maxNameBytes, "a parameter's name");
    else if (reader.field === 2) value = readParameterValue(reader, stop, limits) ?? value;
    else reader.skip(stop);
  }
  if (value === undefined) throw badInput(`parameter ${quote(key)} of ${owner} has no value; set one or leave it out`);
  if (into.has(key)) throw badInput(`parameter ${quote(key)} of ${owner} is there twice; send it once`);
  if (into.size >= limits.maxParameters) {
    throw badInput(`more than ${limits.maxParameters} parameters of ${owner}; the limit is ${limits.maxParameters}`);
  }
  into.set(key, value);
}

function readParameterValue(reader: WireReader, end: number, limits: IngressLimits): ParameterValue | undefined {
  reader.expect(WIRE_BYTES, "a parameter");
  const stop = reader.body(end);
  let value: ParameterValue | undefined;
  while (reader.next(stop)) {
    switch (reader.field) {
      case 1:
      case 2:
      case 5:
        {
          reader.expect(WIRE_VARINT, "a parameter");
          reader.varint(stop);
          const bits = reader.uint64();
          if (reader.field === 1) value = bits !== 0n;
          else value = reader.field === 2 ? BigInt.asIntN(64, bits) : bits;
        }
        break;
      case 3:
        value = readText(reader, stop, limits.maxParameterBytes, "a parameter's value");
        break;
      case 4:
        reader.expect(WIRE_FIXED64, "a parameter");
        value = reader.double(stop);
        break;
      default:
        reader.skip(stop);
    }
  }
  return value;
}

/** What a ModelInferResponse says. */
export interface InferAnswer {
  /** The reference as asked. */
  readonly modelName: string;
  /** The version that served. */
  readonly modelVersion: string;
  /** The caller's id, echoed. */
  readonly id: string;
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly outputs: readonly Tensor[];
}

/** Writes a ModelInferResponse with one raw_output_contents entry per output, in the order of `outputs`. */
export function encodeInferResponse(answer: InferAnswer): Buffer {
  const writer = new WireWriter(256);
  if (answer.modelName !== "") writer.string(1, answer.modelName);
  if (answer.modelVersion !== "") writer.string(2, answer.modelVersion);
  if (answer.id !== "") writer.string(3, answer.id);
  for (const [key, value] of answer.parameters) {
    writer.message(4, (entry) => {
      entry.string(1, key);
      entry.message(2, (body) => writeParameterValue(body, value));
    });
  }
  for (const output of answer.outputs) {
    writer.message(5, (body) => {
      body.string(1, output.name);
      body.string(2, output.datatype);
      if (output.shape.length > 0) {
        body.message(3, (dimensions) => {
          for (const dimension of output.shape) dimensions.varint(dimension);
        });
      }
    });
  }
  return appendRaw(writer.view(), answer.outputs);
}

/** The head and, behind it, field 6 for each tensor, in one allocation. */
function appendRaw(head: Buffer, outputs: readonly Tensor[]): Buffer {
  const tag = 6 * 8 + WIRE_BYTES;
  let size = head.length;
  for (const { data } of outputs) size += 1 + varintLength(data.byteLength) + data.byteLength;
  const out = Buffer.allocUnsafe(size);
  out.set(head, 0);
  let at = head.length;
  for (const { data } of outputs) {
    out[at++] = tag;
    let rest = data.byteLength;
    while (rest >= 128) {
      out[at++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    out[at++] = rest;
    out.set(data, at);
    at += data.byteLength;
  }
  return out;
}

function writeParameterValue(writer: WireWriter, value: ParameterValue): void {
  if (typeof value === "boolean") {
    writer.tag(1, WIRE_VARINT);
    writer.varint(value ? 1 : 0);
  } else if (typeof value === "bigint") {
    // uint64_param only where int64_param cannot hold the value.
    writer.tag(BigInt.asIntN(64, value) === value ? 2 : 5, WIRE_VARINT);
    writer.varint64(value);
  } else if (typeof value === "string") writer.string(3, value);
  else {
    writer.tag(4, WIRE_FIXED64);
    writer.double(value);
  }
}
