/*
 * The gate: one Wasm filter that judges each request before Envoy routes it. This file connects the host's callbacks to
 * the stages (pipeline.ts) and to what is written on the request and the answer. README.md draws the whole.
 */
import { BodyAction, enterCallback, HeadersAction, monotonicNs, TrailersAction } from "../proxy-wasm/index";
import { Asked } from "./asked";
import { BodyPrefix } from "./body-prefix";
import { Call, createCall, dropCall, Flag, findCall } from "./call";
import { Config } from "./config";
import { configure, currentConfig, pin, unpin } from "./configuration";
import { rewriteErrorBody } from "./error-body";
import { countPassed, defineMetrics } from "./metrics";
import { decideByHeaders, decideByReference } from "./pipeline";
import { BAD_FRAME, NO_HEADERS, Refusal } from "./refusals";
import { refuse } from "./refuse";
import { RequestHeaders } from "./request-headers";
import { shapeResponseHeaders } from "./response-headers";
import { writeUpstreamRequest } from "./upstream-request";

export { malloc, proxy_abi_version_0_2_1 } from "../proxy-wasm/index";

// One of each for all streams: a callback runs to its end before the next one begins.
const headers = new RequestHeaders();
const asked = new Asked();
const prefix = new BodyPrefix();

export function proxy_on_configure(rootId: u32, length: u32): u32 {
  enterCallback();
  defineMetrics();
  return configure(length) ? 1 : 0;
}

export function proxy_on_request_headers(id: u32, count: u32, endOfStream: u32): u32 {
  enterCallback();
  const startNs = monotonicNs();
  const call = createCall(id);
  const config = currentConfig();
  let refusal: Refusal | null = NO_HEADERS;
  if (headers.read()) refusal = decideByHeaders(call, headers, asked, config, endOfStream !== 0);
  // At gRPC doors the model's name comes with the body; calls of the server name none.
  if (refusal === null && config !== null && call.has(Flag.Grpc) && call.namesModel) {
    awaitBody(call, config);
    call.spentNs = monotonicNs() - startNs;
    return HeadersAction.Stop;
  }
  if (refusal === null && config !== null) refusal = decideByReference(call, headers, asked, config);
  const passes = finish(call, refusal, config);
  call.spentNs = monotonicNs() - startNs;
  return passes ? HeadersAction.Continue : HeadersAction.Stop;
}

export function proxy_on_request_body(id: u32, size: u32, endOfStream: u32): u32 {
  enterCallback();
  const call = findCall(id);
  // Nothing of a stream that was never judged may go upstream.
  if (call === null || call.has(Flag.Refused)) return BodyAction.StopNoBuffer;
  if (!call.has(Flag.AwaitsBody)) return BodyAction.Continue;
  const startNs = monotonicNs();
  if (!prefix.read(size, endOfStream !== 0, asked)) return BodyAction.StopAndBuffer;
  const config = changetype<Config>(call.pinned);
  let refusal = prefix.refusal;
  if (refusal === null && !headers.read()) refusal = NO_HEADERS;
  if (refusal === null) refusal = decideByReference(call, headers, asked, config);
  const passes = finish(call, refusal, config);
  stopAwaiting(call);
  call.spentNs += monotonicNs() - startNs;
  return passes ? BodyAction.Continue : BodyAction.StopNoBuffer;
}

/**
 * A body that ends with trailers has no other end. Whoever is still awaited then has sent less than its message; without
 * this callback Envoy would let the request go on unjudged.
 */
export function proxy_on_request_trailers(id: u32, count: u32): u32 {
  enterCallback();
  const call = findCall(id);
  if (call === null || call.has(Flag.Refused)) return TrailersAction.Stop;
  if (!call.has(Flag.AwaitsBody)) return TrailersAction.Continue;
  refuse(call, BAD_FRAME);
  stopAwaiting(call);
  return TrailersAction.Stop;
}

export function proxy_on_response_headers(id: u32, count: u32, endOfStream: u32): u32 {
  enterCallback();
  const call = findCall(id);
  if (call !== null && !call.has(Flag.Refused)) shapeResponseHeaders(call, endOfStream !== 0);
  return HeadersAction.Continue;
}

export function proxy_on_response_body(id: u32, size: u32, endOfStream: u32): u32 {
  enterCallback();
  const call = findCall(id);
  return call === null ? BodyAction.Continue : rewriteErrorBody(call, size, endOfStream !== 0);
}

/** The last callback of every stream that needs one: also of those that ended while they waited for their body. */
export function proxy_on_log(id: u32): void {
  enterCallback();
  const call = findCall(id);
  if (call === null) return;
  stopAwaiting(call);
  dropCall(id);
}

/** Holds the headers back and keeps the configuration that the call began with, for the indexes in the call. */
function awaitBody(call: Call, config: Config): void {
  call.flags |= Flag.AwaitsBody;
  call.pinned = changetype<usize>(config);
  pin(config);
}

function stopAwaiting(call: Call): void {
  if (call.pinned === 0) return;
  unpin(changetype<Config>(call.pinned));
  call.pinned = 0;
  call.flags &= ~Flag.AwaitsBody;
}

/** Writes the verdict; true when the request passes. */
function finish(call: Call, refusal: Refusal | null, config: Config | null): bool {
  if (refusal === null && config !== null) {
    writeUpstreamRequest(call, headers, config);
    countPassed();
    return true;
  }
  // Without a configuration there always is a refusal; should it ever be missing, nothing passes.
  refuse(call, refusal === null ? NO_HEADERS : refusal);
  return false;
}
