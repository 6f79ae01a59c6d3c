import {
  H_ENVOY_TIMEOUT,
  H_GRPC_TIMEOUT,
  H_PRIORITY,
  H_ROUTE,
  H_SHADOW_CLUSTER,
  H_STICKY,
  H_TENANT,
  ROUTE_SERVER_LIVE,
  ROUTE_SERVER_META,
  ROUTE_SERVER_READY,
  ROUTER_TIMEOUT_MARGIN_MS,
} from "../../../proto/src/names";
import {
  HeaderMap,
  literal,
  removeHeaderBytes,
  replaceHeader,
  replaceHeaderBytes,
  Span,
  scratch,
  TextBuilder,
} from "../proxy-wasm/index";
import { Call, Flag, Kind } from "./call";
import { Config, NONE } from "./config";
import { RequestHeaders } from "./request-headers";
import { pathEnd } from "./stages/door";
import { BATCH, INTERACTIVE } from "./stages/priority";

const PATH = literal(":path");
const ROUTE = literal(H_ROUTE);
const TENANT = literal(H_TENANT);
const PRIORITY = literal(H_PRIORITY);
const STICKY = literal(H_STICKY);
const SHADOW_CLUSTER = literal(H_SHADOW_CLUSTER);
const GRPC_TIMEOUT = literal(H_GRPC_TIMEOUT);
const ENVOY_TIMEOUT = literal(H_ENVOY_TIMEOUT);
const SERVER_LIVE = literal(ROUTE_SERVER_LIVE);
const SERVER_READY = literal(ROUTE_SERVER_READY);
const SERVER_META = literal(ROUTE_SERVER_META);

/** Name of 63, slash, version of 19 or alias of 32 characters fit. */
const TEXT_BYTES: usize = 128;
const MILLISECONDS: u8 = 0x6d;
const SLASH: u8 = 0x2f;
const text = new TextBuilder();
const value = new Span();

/**
 * Turns the request that the client sent into the one that the mesh routes: all that was decided as headers, and nothing
 * left of what was for the gate only. Every header is replaced, never added, so that no client's copy survives.
 */
export function writeUpstreamRequest(call: Call, headers: RequestHeaders, config: Config): void {
  removePrivate(headers);
  writeRoute(call, config);
  if (call.tenant !== NONE) {
    config.tenantName(call.tenant, value);
    replaceHeader(HeaderMap.Request, TENANT, value);
    replaceHeader(HeaderMap.Request, PRIORITY, call.has(Flag.Batch) ? BATCH : INTERACTIVE);
  }
  if (headers.sticky.value.present) replaceHeader(HeaderMap.Request, STICKY, headers.sticky.value);
  if (call.kind === Kind.Predict && call.alias !== NONE) writeShadow(call, config);
  writeBudget(call);
  if (!call.has(Flag.Grpc)) cutQuery(headers);
}

function removePrivate(headers: RequestHeaders): void {
  const pairs = headers.pairs;
  pairs.rewind();
  while (pairs.next()) {
    if (headers.currentIsPrivate) removeHeaderBytes(HeaderMap.Request, pairs.nameInBlock, pairs.nameLength);
  }
}

/** `<model>/<alias or version>`, or one of the routes of the server. */
function writeRoute(call: Call, config: Config): void {
  if (!call.namesModel) {
    replaceHeader(HeaderMap.Request, ROUTE, serverRoute(call.kind));
    return;
  }
  text.begin(scratch(TEXT_BYTES), TEXT_BYTES);
  config.modelName(call.model, value);
  text.span(value);
  text.byte(SLASH);
  if (call.alias === NONE) text.decimal(call.version);
  else {
    config.aliasName(call.alias, value);
    text.span(value);
  }
  replaceHeaderBytes(HeaderMap.Request, ROUTE, text.pointer, text.length);
}

function serverRoute(kind: u32): Span {
  if (kind === Kind.ServerLive) return SERVER_LIVE;
  return kind === Kind.ServerReady ? SERVER_READY : SERVER_META;
}

function writeShadow(call: Call, config: Config): void {
  config.shadowCluster(call.alias, value);
  if (value.length > 0) replaceHeader(HeaderMap.Request, SHADOW_CLUSTER, value);
}

/** Envoy's router timer gets a margin, so that the stream's own deadline, which gives the better answer, fires first. */
function writeBudget(call: Call): void {
  text.begin(scratch(TEXT_BYTES), TEXT_BYTES);
  text.decimal(call.budgetMs);
  text.byte(MILLISECONDS);
  replaceHeaderBytes(HeaderMap.Request, GRPC_TIMEOUT, text.pointer, text.length);
  text.begin(text.pointer, TEXT_BYTES);
  text.decimal(call.budgetMs + <u32>ROUTER_TIMEOUT_MARGIN_MS);
  replaceHeaderBytes(HeaderMap.Request, ENVOY_TIMEOUT, text.pointer, text.length);
}

/** The transcoder would let query parameters override the names in the path. */
function cutQuery(headers: RequestHeaders): void {
  const path = headers.path.value;
  const end = pathEnd();
  if (end < path.length) replaceHeaderBytes(HeaderMap.Request, PATH, path.pointer, end);
}
