import { MAX_TIMEOUT_MS } from "../../../../proto/src/names";
import { Span } from "../../proxy-wasm/index";
import { Call, Wish } from "../call";
import { Config, NONE } from "../config";
import { BAD_TIMEOUT, NO_TIME, REPEATED_TIMEOUT, Refusal } from "../refusals";
import { RequestHeaders } from "../request-headers";

/** Budget of calls that name no model. */
const SERVER_BUDGET_MS: u32 = 5000;
/** gRPC over HTTP/2: TimeoutValue has at most 8 digits. */
const GRPC_DIGITS_MAX: u32 = 8;
const NS_PER_MS: u64 = 1000000;

/**
 * The smaller of what `x-predict-timeout-ms` and `grpc-timeout` wish, in ms, or a Wish. Read with the headers, because the
 * model's limit may only be known once the body has come; judged by `decideDeadline`.
 */
export function readWish(headers: RequestHeaders): i32 {
  if (headers.predictTimeout.count > 1 || headers.grpcTimeout.count > 1) return Wish.Repeated;
  let wish: i32 = Wish.None;
  if (headers.predictTimeout.count === 1) {
    wish = parseMs(headers.predictTimeout.value);
    if (wish < 0) return wish;
  }
  if (headers.grpcTimeout.count === 1) {
    const grpc = parseGrpcTimeout(headers.grpcTimeout.value);
    if (grpc < 0) return grpc;
    if (wish < 0 || grpc < wish) wish = grpc;
  }
  return wish;
}

/** How long the call may take: sets its budget to the wish, clamped to what the alias or the model allows. */
export function decideDeadline(call: Call, config: Config): Refusal | null {
  if (call.wishMs === Wish.Repeated) return REPEATED_TIMEOUT;
  if (call.wishMs === Wish.Malformed) return BAD_TIMEOUT;
  if (call.wishMs === 0) return NO_TIME;
  const limitMs = limitOf(call, config);
  call.budgetMs = call.wishMs > 0 ? min<u32>(<u32>call.wishMs, limitMs) : limitMs;
  return null;
}

function limitOf(call: Call, config: Config): u32 {
  if (!call.namesModel) return SERVER_BUDGET_MS;
  return call.alias === NONE ? config.modelDeadlineMs(call.model) : config.aliasDeadlineMs(call.alias);
}

/** Digits only. Numbers of any length are read and clamped, so that no wrap turns a huge wish into a small one. */
function parseMs(text: Span): i32 {
  if (text.length === 0) return Wish.Malformed;
  let value: u32 = 0;
  for (let index: u32 = 0; index < text.length; index++) {
    const digit = <u32>text.at(index) - 0x30;
    if (digit > 9) return Wish.Malformed;
    value = min<u32>(value * 10 + digit, MAX_TIMEOUT_MS);
  }
  return <i32>value;
}

/** 1 to 8 digits and one of H M S m u n, rounded up to whole ms, so that only a real zero is one. */
function parseGrpcTimeout(text: Span): i32 {
  const digits = text.length - 1;
  if (text.length < 2 || digits > GRPC_DIGITS_MAX) return Wish.Malformed;
  let value: u64 = 0;
  for (let index: u32 = 0; index < digits; index++) {
    const digit = <u32>text.at(index) - 0x30;
    if (digit > 9) return Wish.Malformed;
    value = value * 10 + digit;
  }
  const unitNs = nsOfUnit(text.at(digits));
  if (unitNs === 0) return Wish.Malformed;
  // Before the product, because 8 digits of hours in ns (3.6e20) do not fit 64 bits.
  if (value > (<u64>MAX_TIMEOUT_MS * NS_PER_MS) / unitNs) return MAX_TIMEOUT_MS;
  return <i32>((value * unitNs + NS_PER_MS - 1) / NS_PER_MS);
}

/** 0 for a letter that is no unit. */
function nsOfUnit(unit: u8): u64 {
  switch (unit) {
    case 0x48:
      return 3600 * 1000 * NS_PER_MS;
    case 0x4d:
      return 60 * 1000 * NS_PER_MS;
    case 0x53:
      return 1000 * NS_PER_MS;
    case 0x6d:
      return NS_PER_MS;
    case 0x75:
      return 1000;
    case 0x6e:
      return 1;
    default:
      return 0;
  }
}
