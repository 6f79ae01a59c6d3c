import { GRPC_SERVICE_PATH } from "../../../../proto/src/names";
import { literal, Span } from "../../proxy-wasm/index";
import { Asked } from "../asked";
import { Call, Flag, Kind } from "../call";
import {
  CONTENT_ENCODING,
  CONTENT_TYPE,
  GET_ONLY,
  GRPC_CONTENT_TYPE,
  NO_SUCH_GRPC_METHOD,
  NO_SUCH_PATH,
  POST_ONLY,
  Refusal,
  STREAM_INFER,
} from "../refusals";
import { RequestHeaders } from "../request-headers";
import { RestPath } from "../rest-path";

const GET = literal("GET");
const POST = literal("POST");
const APPLICATION_GRPC = literal("application/grpc");
const GRPC_PROTO = literal("application/grpc+proto");
const APPLICATION_JSON = literal("application/json");
const FORM = literal("application/x-www-form-urlencoded");
const OCTET_STREAM = literal("application/octet-stream");
const CHARSET = literal("charset=");
const UTF_8 = literal("utf-8");
const IDENTITY = literal("identity");
const SERVICE = literal(GRPC_SERVICE_PATH);
const PLUS: u8 = 0x2b;
const SEMICOLON: u8 = 0x3b;
const SPACE: u8 = 0x20;
const QUOTE: u8 = 0x22;

const METHOD_MODEL_INFER = literal("ModelInfer");
const METHOD_MODEL_STREAM_INFER = literal("ModelStreamInfer");
const METHOD_SERVER_LIVE = literal("ServerLive");
const METHOD_SERVER_READY = literal("ServerReady");
const METHOD_SERVER_METADATA = literal("ServerMetadata");
const METHOD_MODEL_READY = literal("ModelReady");
const METHOD_MODEL_METADATA = literal("ModelMetadata");
const METHOD_MODEL_CONFIG = literal("ModelConfig");

const restPath = new RestPath();
const rest = new Span();
const parameters = new Span();

/**
 * Which door, and what is asked through it: sets the call's kind and door, and for REST the texts that name the model.
 * The query never reaches the upstream (the transcoder would let it override the path), so `pathEnd` says where it begins.
 */
export function decideDoor(call: Call, headers: RequestHeaders, asked: Asked): Refusal | null {
  asked.clear();
  const contentType = headers.contentType.value;
  // In exact case, because Envoy compares it so when it chooses between a gRPC status and an HTTP answer.
  if (contentType.startsWith(APPLICATION_GRPC)) {
    if (contentType.length === APPLICATION_GRPC.length || contentType.equals(GRPC_PROTO)) {
      call.flags |= Flag.Grpc;
      return decideGrpc(call, headers);
    }
    if (contentType.at(APPLICATION_GRPC.length) === PLUS) call.flags |= Flag.GrpcLike;
    return GRPC_CONTENT_TYPE;
  }
  if (headers.contentType.count > 1) return CONTENT_TYPE;
  return decideRest(call, headers, asked);
}

function decideGrpc(call: Call, headers: RequestHeaders): Refusal | null {
  const path = headers.path.value;
  if (!path.startsWith(SERVICE)) return NO_SUCH_GRPC_METHOD;
  rest.set(path.pointer + SERVICE.length, path.length - SERVICE.length);
  if (rest.equals(METHOD_MODEL_INFER)) call.kind = Kind.Predict;
  else if (rest.equals(METHOD_SERVER_LIVE)) call.kind = Kind.ServerLive;
  else if (rest.equals(METHOD_SERVER_READY)) call.kind = Kind.ServerReady;
  else if (rest.equals(METHOD_SERVER_METADATA)) call.kind = Kind.ServerMetadata;
  else if (rest.equals(METHOD_MODEL_READY)) call.kind = Kind.ModelReady;
  else if (rest.equals(METHOD_MODEL_METADATA)) call.kind = Kind.ModelMetadata;
  else if (rest.equals(METHOD_MODEL_CONFIG)) call.kind = Kind.ModelConfig;
  else return rest.equals(METHOD_MODEL_STREAM_INFER) ? STREAM_INFER : NO_SUCH_GRPC_METHOD;
  return headers.method.value.equals(POST) ? null : POST_ONLY;
}

function decideRest(call: Call, headers: RequestHeaders, asked: Asked): Refusal | null {
  const posted = headers.method.value.equals(POST);
  if (!restPath.parse(headers.path.value, posted)) return NO_SUCH_PATH;
  call.kind = restPath.kind;
  if (call.kind !== Kind.Predict) {
    if (!headers.method.value.equals(GET)) return GET_ONLY;
    return restPath.readNames(asked);
  }
  if (!posted) return POST_ONLY;
  if (headers.contentEncoding.count > 0 && !headers.contentEncoding.value.equalsIgnoreCase(IDENTITY))
    return CONTENT_ENCODING;
  if (headers.contentEncoding.count > 1) return CONTENT_ENCODING;
  if (!acceptsBody(headers.contentType.value, restPath.takesBinary)) return CONTENT_TYPE;
  return restPath.readNames(asked);
}

/**
 * JSON, what curl sends without being told, or nothing: the batcher then parses JSON. Binary tensors where the door has
 * them. All else, other character sets included, is refused, so that nobody has to guess how to read a body.
 */
function acceptsBody(contentType: Span, takesBinary: bool): bool {
  if (contentType.length === 0) return true;
  let end: u32 = 0;
  while (end < contentType.length && contentType.at(end) !== SEMICOLON && contentType.at(end) !== SPACE) end++;
  parameters.set(contentType.pointer + end, contentType.length - end);
  rest.set(contentType.pointer, end);
  if (rest.equalsIgnoreCase(OCTET_STREAM)) return takesBinary;
  if (!rest.equalsIgnoreCase(APPLICATION_JSON) && !rest.equalsIgnoreCase(FORM)) return false;
  return namesUtf8OrNothing(parameters);
}

/** Parameters of a media type that say nothing but, at most, `charset=utf-8`. */
function namesUtf8OrNothing(text: Span): bool {
  let pointer = text.pointer;
  let end = pointer + text.length;
  while (pointer < end && (load<u8>(pointer) === SEMICOLON || load<u8>(pointer) === SPACE)) pointer++;
  while (pointer < end && (load<u8>(end - 1) === SEMICOLON || load<u8>(end - 1) === SPACE)) end--;
  if (pointer === end) return true;
  text.set(pointer, <u32>(end - pointer));
  if (!text.startsWithIgnoreCase(CHARSET)) return false;
  pointer += CHARSET.length;
  if (end - pointer >= 2 && load<u8>(pointer) === QUOTE && load<u8>(end - 1) === QUOTE) {
    pointer++;
    end--;
  }
  text.set(pointer, <u32>(end - pointer));
  return text.equalsIgnoreCase(UTF_8);
}

/** Length of the path without its query; equal to the path's own length when there is none. */
export function pathEnd(): u32 {
  return restPath.pathLength;
}
