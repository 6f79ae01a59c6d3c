import { H_RETRY_AFTER } from "../../../proto/src/names";
import { literal, Span } from "../proxy-wasm/index";
import {
  BAD_INPUT,
  DEADLINE,
  FORBIDDEN,
  INTERNAL,
  METHOD_NOT_ALLOWED,
  MODEL_NOT_FOUND,
  PATH_NOT_FOUND,
  Reason,
  UNAUTHENTICATED,
  UNAVAILABLE,
  UNSUPPORTED_MEDIA_TYPE,
} from "./reasons";

/**
 * One way to be refused. The text names the field or limit and the remedy; it holds no quotes, backslashes or control
 * characters and nothing that a caller sent, so it needs no escaping in JSON.
 */
@unmanaged
export class Refusal {
  reason: Reason = UNAVAILABLE;
  grpcStatus: i32 = 0;
  text: Span = new Span();
  /** One more response header; absent when its name is empty. */
  headerName: Span = new Span();
  headerValue: Span = new Span();
}

function refusal(reason: Reason, text: string): Refusal {
  const made = new Refusal();
  made.reason = reason;
  made.grpcStatus = reason.grpcStatus;
  made.text = literal(text);
  return made;
}

function withHeader(reason: Reason, text: string, name: string, value: string): Refusal {
  const made = refusal(reason, text);
  made.headerName = literal(name);
  made.headerValue = literal(value);
  return made;
}

/** gRPC calls this kind of "no such path" UNIMPLEMENTED. */
function withGrpcStatus(reason: Reason, grpcStatus: i32, text: string): Refusal {
  const made = refusal(reason, text);
  made.grpcStatus = grpcStatus;
  return made;
}

// Door: what is asked for, and whether the gateway serves it.
export const NO_SUCH_PATH = refusal(
  PATH_NOT_FOUND,
  "path is not served; predict with POST /v1/models/MODEL:predict or POST /v2/models/MODEL/infer",
);
export const NO_SUCH_GRPC_METHOD = withGrpcStatus(
  PATH_NOT_FOUND,
  12,
  "gRPC method is not served; this gateway serves inference.GRPCInferenceService",
);
export const STREAM_INFER = withGrpcStatus(
  PATH_NOT_FOUND,
  12,
  "gRPC method ModelStreamInfer is not served; use ModelInfer",
);
export const GET_ONLY = withHeader(METHOD_NOT_ALLOWED, "method is not allowed for this path; use GET", "allow", "GET");
export const POST_ONLY = withHeader(
  METHOD_NOT_ALLOWED,
  "method is not allowed for this path; use POST",
  "allow",
  "POST",
);
export const BAD_ESCAPE = refusal(
  BAD_INPUT,
  "path: the model segment may hold no percent escape but %40 (@) and %3A (:)",
);
export const GRPC_CONTENT_TYPE = refusal(
  UNSUPPORTED_MEDIA_TYPE,
  "content-type: gRPC calls need application/grpc or application/grpc+proto",
);
export const CONTENT_TYPE = refusal(
  UNSUPPORTED_MEDIA_TYPE,
  "content-type: send application/json (UTF-8), or application/octet-stream with the binary tensor extension of /v2",
);
export const CONTENT_ENCODING = refusal(
  UNSUPPORTED_MEDIA_TYPE,
  "content-encoding: compressed bodies are not accepted; send the body as it is",
);

// Auth.
export const NO_KEY = withHeader(
  UNAUTHENTICATED,
  "no API key; send authorization: Bearer KEY or x-api-key: KEY",
  "www-authenticate",
  "Bearer",
);
export const TWO_KEYS = withHeader(
  UNAUTHENTICATED,
  "more than one credential; send authorization or x-api-key, once",
  "www-authenticate",
  "Bearer",
);
export const BAD_AUTHORIZATION = withHeader(
  UNAUTHENTICATED,
  "authorization: must be Bearer, one space and an API key",
  "www-authenticate",
  "Bearer",
);
export const BAD_KEY = withHeader(
  UNAUTHENTICATED,
  "API key is not valid; ask the operator for a current one",
  "www-authenticate",
  "Bearer",
);

// Resolve: which model.
export const BAD_MODEL_NAME = refusal(
  BAD_INPUT,
  "model: the name must match [a-z0-9][a-z0-9._-]* and have at most 63 characters",
);
export const BAD_ALIAS = refusal(
  BAD_INPUT,
  "model: the alias must match [a-z][a-z0-9-]* and have at most 32 characters",
);
export const BAD_VERSION = refusal(
  BAD_INPUT,
  "model: the version must be a whole number from 1 to 9223372036854775807 without leading zeros",
);
export const TWO_PINS = refusal(BAD_INPUT, "model: only one pin is possible; write model@alias or model:version");
export const CONFLICTING_PINS = refusal(
  BAD_INPUT,
  "model: the reference and the version or label name different pins; give one",
);
export const NO_SUCH_MODEL = refusal(MODEL_NOT_FOUND, "model is not known to this gateway; check its name");
export const NO_SUCH_ALIAS = refusal(MODEL_NOT_FOUND, "model has no such alias; check the part after @ or the label");
export const NO_DEFAULT_ALIAS = refusal(
  MODEL_NOT_FOUND,
  "model has no default alias that is served; name one as model@alias or model:version",
);
export const NO_SUCH_VERSION = refusal(MODEL_NOT_FOUND, "model has no such version that is served; check the version");

// Resolve: the prefix of a gRPC body.
export const NO_BODY = refusal(BAD_INPUT, "request body is missing; send one gRPC message");
export const COMPRESSED_FRAME = refusal(BAD_INPUT, "gRPC message is compressed; send it uncompressed");
export const BAD_FRAME = refusal(BAD_INPUT, "gRPC message is cut short or its frame is not valid");
export const BAD_MESSAGE = refusal(BAD_INPUT, "gRPC message is not valid protobuf in its first 4096 bytes");
export const NO_NAME = refusal(BAD_INPUT, "model name is missing in the gRPC message");
export const NAME_TOO_FAR = refusal(
  BAD_INPUT,
  "model name is not in the first 4096 bytes of the gRPC message; put it first",
);
export const REPEATED_FIELD = refusal(BAD_INPUT, "model name and version may occur only once in the gRPC message");

// Access.
export const TENANT_NOT_ALLOWED = refusal(
  FORBIDDEN,
  "tenant may not call this model; both the model and the tenant must allow it",
);

// Deadline.
export const BAD_TIMEOUT = refusal(
  BAD_INPUT,
  "x-predict-timeout-ms must be whole milliseconds, grpc-timeout up to 8 digits and a unit of HMSmun",
);
export const REPEATED_TIMEOUT = refusal(BAD_INPUT, "x-predict-timeout-ms and grpc-timeout may each be sent only once");
export const NO_TIME = refusal(DEADLINE, "the budget of 0 ms is already spent; ask for a longer timeout");

// Sticky and priority.
export const BAD_STICKY = refusal(BAD_INPUT, "sticky key header must be sent once and have at most 1024 bytes");
export const BAD_PRIORITY = refusal(BAD_INPUT, "x-predict-priority must be interactive or batch, once");

// The gate itself.
export const NO_CONFIGURATION = withHeader(
  UNAVAILABLE,
  "the gateway has no configuration yet; try again",
  H_RETRY_AFTER,
  "1",
);
export const NO_HEADERS = refusal(INTERNAL, "the gateway could not read the request headers");
