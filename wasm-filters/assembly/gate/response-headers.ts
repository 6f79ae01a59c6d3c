import { H_CONTENT_LENGTH, H_CONTENT_TYPE, H_LOAD, H_REASON, H_SERVER_TIMING } from "../../../proto/src/names";
import {
  addHeader,
  HeaderMap,
  HeaderPairs,
  literal,
  removeHeader,
  removeHeaderBytes,
  replaceHeader,
  replaceHeaderBytes,
  Span,
  scratch,
  TextBuilder,
} from "../proxy-wasm/index";
import { Call, Flag } from "./call";
import { Reason, reasonOfGrpcStatus, reasonOfHttpStatus, reasonOfWord } from "./reasons";
import { Seen } from "./request-headers";

const STATUS = literal(":status");
const CONTENT_TYPE = literal(H_CONTENT_TYPE);
const CONTENT_LENGTH = literal(H_CONTENT_LENGTH);
const GRPC_STATUS = literal("grpc-status");
const GRPC_PREFIX = literal("grpc-");
const LOAD = literal(H_LOAD);
const REASON = literal(H_REASON);
const SERVER_TIMING = literal(H_SERVER_TIMING);
const JSON_TYPE = literal("application/json");
const GATE = literal("gate;dur=");
const SEPARATOR = literal(", ");
const DOT: u8 = 0x2e;
const ENTRY_BYTES: u32 = 40;
const NS_PER_MS: u64 = 1000000;
const NS_PER_US: u64 = 1000;

const pairs = new HeaderPairs();
const status = new Seen();
const contentType = new Seen();
const grpcStatus = new Seen();
const reasonWord = new Seen();
const serverTiming = new Seen();
const text = new TextBuilder();
const entry = new Span();

/**
 * Shapes an answer of the mesh for the client: internal headers go, at REST doors those of gRPC too, the gate's own time
 * joins server-timing, and an error gets a reason. Flags a JSON error body that must be rewritten.
 */
export function shapeResponseHeaders(call: Call, endOfStream: bool): void {
  if (!readAndStrip(!call.has(Flag.Grpc))) return;
  writeTiming(call);
  const error = reasonOfError();
  if (error === null) return;
  if (reasonWord.count === 0) replaceHeader(HeaderMap.Response, REASON, error.word);
  if (call.has(Flag.Grpc) || endOfStream || !contentType.value.startsWithIgnoreCase(JSON_TYPE)) return;
  // The rewritten body has another length, and the headers leave before the body is known.
  removeHeader(HeaderMap.Response, CONTENT_LENGTH);
  call.errorReason = error;
  call.flags |= Flag.RewritesBody;
}

/** One pass: takes what is looked at and removes what a client must not see. False when the host has no headers. */
function readAndStrip(isRest: bool): bool {
  status.clear();
  contentType.clear();
  grpcStatus.clear();
  reasonWord.clear();
  serverTiming.clear();
  if (!pairs.load(HeaderMap.Response)) return false;
  while (pairs.next()) {
    if (pairs.nameIs(STATUS)) take(status);
    else if (pairs.nameIs(CONTENT_TYPE)) take(contentType);
    else if (pairs.nameIs(SERVER_TIMING)) take(serverTiming);
    else if (pairs.nameIs(REASON)) take(reasonWord);
    else if (pairs.nameIs(LOAD)) removeHeaderBytes(HeaderMap.Response, pairs.nameInBlock, pairs.nameLength);
    else if (pairs.nameStartsWith(GRPC_PREFIX)) {
      if (pairs.nameIs(GRPC_STATUS)) take(grpcStatus);
      if (isRest) removeHeaderBytes(HeaderMap.Response, pairs.nameInBlock, pairs.nameLength);
    }
  }
  return true;
}

function take(seen: Seen): void {
  if (seen.count++ === 0) pairs.copyValueTo(seen.value);
}

/** Appends `gate;dur=0.031`, in ms with µs, to what the batcher measured. */
function writeTiming(call: Call): void {
  const before = serverTiming.count === 1 ? serverTiming.value.length : 0;
  const size = before + ENTRY_BYTES;
  text.begin(scratch(size), size);
  if (before > 0) {
    text.span(serverTiming.value);
    text.span(SEPARATOR);
  }
  text.span(GATE);
  text.decimal(call.spentNs / NS_PER_MS);
  text.byte(DOT);
  text.paddedDecimal(<u32>((call.spentNs % NS_PER_MS) / NS_PER_US), 3);
  entry.set(text.pointer, text.length);
  // Several lines mean one list; a further line keeps them all.
  if (serverTiming.count > 1) addHeader(HeaderMap.Response, SERVER_TIMING, entry);
  else replaceHeaderBytes(HeaderMap.Response, SERVER_TIMING, entry.pointer, entry.length);
}

/** The reason of an error answer, or null when the answer is no error. */
function reasonOfError(): Reason | null {
  const httpStatus = decimalOf(status.value);
  const grpcCode = decimalOf(grpcStatus.value);
  if (httpStatus < 400 && grpcCode === 0) return null;
  if (reasonWord.count > 0) {
    const known = reasonOfWord(reasonWord.value);
    if (known !== null) return known;
  }
  return grpcCode !== 0 ? reasonOfGrpcStatus(grpcCode) : reasonOfHttpStatus(httpStatus);
}

/** Value of up to 3 digits; 0 when it is none. */
function decimalOf(digits: Span): u32 {
  let value: u32 = 0;
  if (digits.length > 3) return 0;
  for (let index: u32 = 0; index < digits.length; index++) {
    const digit = <u32>digits.at(index) - 0x30;
    if (digit > 9) return 0;
    value = value * 10 + digit;
  }
  return value;
}
