import { H_CONTENT_TYPE, H_REASON, H_REFUSED } from "../../../proto/src/names";
import { HeaderMap, LocalResponse, literal, replaceHeader, scratch, TextBuilder } from "../proxy-wasm/index";
import { Call, Flag } from "./call";
import { countRefused } from "./metrics";
import { Refusal } from "./refusals";

const REFUSED = literal(H_REFUSED);
const ONE = literal("1");
const REASON = literal(H_REASON);
const CONTENT_TYPE = literal(H_CONTENT_TYPE);
const JSON_TYPE = literal("application/json");
const ERROR_KEY = literal('{"error":"');
const CODE_KEY = literal('","code":');
const REASON_KEY = literal(',"reason":"');
const END = literal('"}');
/** The longest text with its frame fits. */
const BODY_BYTES: usize = 512;

const response = new LocalResponse();
const body = new TextBuilder();

/**
 * Answers the call with a refusal: `{"error","code","reason"}` at REST doors; at gRPC doors the text alone, which Envoy
 * sends as grpc-message. The mark on the request tells Envoy's local_reply_config to leave this answer as it is.
 */
export function refuse(call: Call, refusal: Refusal): void {
  call.flags |= Flag.Refused;
  countRefused(refusal.reason);
  replaceHeader(HeaderMap.Request, REFUSED, ONE);
  const reason = refusal.reason;
  const asGrpc = call.has(Flag.Grpc) || call.has(Flag.GrpcLike);
  body.begin(scratch(BODY_BYTES), BODY_BYTES);
  if (asGrpc) body.span(refusal.text);
  else writeJson(refusal);
  response.begin();
  if (!asGrpc) response.header(CONTENT_TYPE, JSON_TYPE);
  response.header(REASON, reason.word);
  if (refusal.headerName.present) response.header(refusal.headerName, refusal.headerValue);
  response.send(reason.httpStatus, refusal.grpcStatus, reason.word, body.pointer, body.length);
}

function writeJson(refusal: Refusal): void {
  body.span(ERROR_KEY);
  body.span(refusal.text);
  body.span(CODE_KEY);
  body.decimal(<u64>refusal.grpcStatus);
  body.span(REASON_KEY);
  body.span(refusal.reason.word);
  body.span(END);
}
