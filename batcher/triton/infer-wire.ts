import { isDatatype } from "../element-bytes.js";
import {
  varintLength,
  WIRE_BYTES,
  WIRE_FIXED64,
  WIRE_VARINT,
  WireError,
  WireReader,
  WireWriter,
} from "../platform/protobuf-wire.js";
import type { Datatype, ParameterValue, Tensor } from "../request.js";
import type { UpstreamAnswer, UpstreamRequest } from "./model-server.js";

/** Field numbers of inference.ModelInferRequest (proto/inference/grpc_service.proto). */
const REQUEST = { modelName: 1, modelVersion: 2, parameters: 4, inputs: 5, outputs: 6, rawInputContents: 7 } as const;
/** Field numbers of inference.ModelInferResponse. */
const RESPONSE = { parameters: 4, outputs: 5, rawOutputContents: 6 } as const;
/** Field numbers shared by input and output tensors. */
const TENSOR = { name: 1, datatype: 2, shape: 3, contents: 5 } as const;
/** Field numbers of inference.InferParameter. */
const PARAMETER = { bool: 1, int64: 2, string: 3, double: 4, uint64: 5 } as const;

const MAX_INT64 = (1n << 63n) - 1n;

/**
 * A serialised inference.ModelInferRequest. The tensors' bytes are copied once, from the requests' own buffers straight
 * into the message.
 */
export function encodeInferRequest(modelName: string, modelVersion: string, request: UpstreamRequest): Buffer {
  const head = new WireWriter();
  head.string(REQUEST.modelName, modelName);
  head.string(REQUEST.modelVersion, modelVersion);
  for (const [name, value] of request.parameters) {
    head.message(REQUEST.parameters, (entry) => {
      entry.string(1, name);
      entry.message(2, (body) => writeParameter(body, value));
    });
  }
  for (const input of request.inputs) {
    head.message(REQUEST.inputs, (body) => {
      body.string(TENSOR.name, input.name);
      body.string(TENSOR.datatype, input.datatype);
      body.message(TENSOR.shape, (packed) => {
        for (const dimension of input.shape) packed.varint(dimension);
      });
    });
  }
  for (const output of request.outputs) head.message(REQUEST.outputs, (body) => body.string(TENSOR.name, output));
  return appendRawContents(head.view(), request);
}

function appendRawContents(head: Buffer, request: UpstreamRequest): Buffer {
  let total = head.length;
  for (const input of request.inputs) total += 1 + varintLength(input.byteLength) + input.byteLength;
  const message = Buffer.allocUnsafe(total);
  head.copy(message);
  let position = head.length;
  for (const input of request.inputs) {
    message[position++] = REQUEST.rawInputContents * 8 + WIRE_BYTES;
    let rest = input.byteLength;
    while (rest >= 128) {
      message[position++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    message[position++] = rest;
    for (const part of input.parts) {
      message.set(part, position);
      position += part.length;
    }
  }
  return message;
}

function writeParameter(body: WireWriter, value: ParameterValue): void {
  if (typeof value === "boolean") {
    body.tag(PARAMETER.bool, WIRE_VARINT);
    body.varint(value ? 1 : 0);
  } else if (typeof value === "bigint") {
    body.tag(value > MAX_INT64 ? PARAMETER.uint64 : PARAMETER.int64, WIRE_VARINT);
    body.varint64(value);
  } else if (typeof value === "string") {
    body.string(PARAMETER.string, value);
  } else {
    body.tag(PARAMETER.double, WIRE_FIXED64);
    body.double(value);
  }
}

/**
 * Reads a serialised inference.ModelInferResponse; tensors are slices of it.
 * @throws WireError when it is malformed or has typed instead of raw contents
 */
export function decodeInferResponse(message: Buffer): UpstreamAnswer {
  const reader = new WireReader(message);
  const heads: Omit<Tensor, "data">[] = [];
  const contents: Buffer[] = [];
  const parameters = new Map<string, ParameterValue>();
  while (reader.next()) {
    if (reader.field === RESPONSE.outputs) heads.push(readTensorHead(reader.message()));
    else if (reader.field === RESPONSE.rawOutputContents) contents.push(reader.bytes());
    else if (reader.field === RESPONSE.parameters) readParameterEntry(reader.message(), parameters);
    else reader.skip();
  }
  if (heads.length !== contents.length) {
    throw new WireError(`${heads.length} outputs but ${contents.length} raw_output_contents`);
  }
  return { outputs: heads.map((head, index) => ({ ...head, data: contents[index] ?? Buffer.alloc(0) })), parameters };
}

function readTensorHead(reader: WireReader): Omit<Tensor, "data"> {
  let name = "";
  let datatype: Datatype | undefined;
  const shape: number[] = [];
  while (reader.next()) {
    if (reader.field === TENSOR.name) name = reader.string();
    else if (reader.field === TENSOR.datatype) {
      const word = reader.string();
      if (!isDatatype(word)) throw new WireError(`output "${name}" has the unknown datatype "${word}"`);
      datatype = word;
    } else if (reader.field === TENSOR.shape && reader.wireType === WIRE_BYTES) {
      const packed = reader.message();
      while (!packed.done) shape.push(packed.varint());
    } else if (reader.field === TENSOR.shape) shape.push(reader.varint());
    else if (reader.field === TENSOR.contents) {
      throw new WireError(`output "${name}" came as typed contents; only raw_output_contents is read`);
    } else reader.skip();
  }
  if (datatype === undefined) throw new WireError(`output "${name}" has no datatype`);
  return { name, datatype, shape };
}

function readParameterEntry(entry: WireReader, into: Map<string, ParameterValue>): void {
  let name = "";
  let value: ParameterValue | undefined;
  while (entry.next()) {
    if (entry.field === 1) name = entry.string();
    else if (entry.field === 2) value = readParameter(entry.message());
    else entry.skip();
  }
  if (value !== undefined) into.set(name, value);
}

function readParameter(body: WireReader): ParameterValue | undefined {
  let value: ParameterValue | undefined;
  while (body.next()) {
    if (body.field === PARAMETER.bool) value = body.varint() !== 0;
    else if (body.field === PARAMETER.int64) value = BigInt.asIntN(64, body.varint64());
    else if (body.field === PARAMETER.uint64) value = body.varint64();
    else if (body.field === PARAMETER.string) value = body.string();
    else if (body.field === PARAMETER.double) value = body.double();
    else body.skip();
  }
  return value;
}
