/*
 * Example: refuses requests whose `x-api-version` is not the configured one, counts them, and tells how long the upstream
 * took. Configuration: the version as text, for example `2`; empty accepts all.
 */
import {
  ContextSlab, defineCounter, enterCallback, getHeader, HeaderMap, HeadersAction, incrementMetric, literal,
  LocalResponse, log, LogLevel, monotonicNs, readBuffer, Buffer, replaceHeaderBytes, scratch, Span, TextBuilder,
} from "../index";

export { malloc, proxy_abi_version_0_2_1 } from "../index";

/** What we remember of a stream. */
@unmanaged
class Stream {
  startNs: u64 = 0;
}

const VERSION_HEADER = literal("x-api-version");
const TOOK_HEADER = literal("x-upstream-took-us");
const REFUSED_METRIC = literal("example_refused_total");
const DETAILS = literal("wrong_api_version");
const TEXT = literal("x-api-version is missing or not served here");
const READY = literal("example filter is configured");
const WANTED_MAX: u32 = 64;

const streams = new ContextSlab();
streams.init(offsetof<Stream>());
const response = new LocalResponse();
const text = new TextBuilder();
const value = new Span();
const wanted = new Span();
const wantedBytes: usize = memory.data(64);
let refused: u32 = 0;

export function proxy_on_configure(rootId: u32, size: u32): u32 {
  enterCallback();
  if (size > WANTED_MAX) return 0;
  wanted.clear();
  if (readBuffer(Buffer.PluginConfiguration, size, value)) {
    // The host's block dies with this callback, the configuration must not.
    memory.copy(wantedBytes, value.pointer, value.length);
    wanted.set(wantedBytes, value.length);
  }
  refused = defineCounter(REFUSED_METRIC);
  log(LogLevel.Info, READY);
  return 1;
}

export function proxy_on_request_headers(id: u32, count: u32, endOfStream: u32): u32 {
  enterCallback();
  changetype<Stream>(streams.create(id)).startNs = monotonicNs();
  if (!wanted.present) return HeadersAction.Continue;
  if (getHeader(HeaderMap.Request, VERSION_HEADER, value) && value.equals(wanted)) return HeadersAction.Continue;
  incrementMetric(refused, 1);
  response.begin();
  response.header(VERSION_HEADER, wanted);
  response.send(400, 3, DETAILS, TEXT.pointer, TEXT.length);
  return HeadersAction.Stop;
}

export function proxy_on_response_headers(id: u32, count: u32, endOfStream: u32): u32 {
  enterCallback();
  const stream = streams.find(id);
  if (stream === 0) return HeadersAction.Continue;
  text.begin(scratch(24), 24);
  text.decimal((monotonicNs() - changetype<Stream>(stream).startNs) / 1000);
  replaceHeaderBytes(HeaderMap.Response, TOOK_HEADER, text.pointer, text.length);
  return HeadersAction.Continue;
}

/** The last callback of every stream. */
export function proxy_on_log(id: u32): void {
  enterCallback();
  streams.drop(id);
}
