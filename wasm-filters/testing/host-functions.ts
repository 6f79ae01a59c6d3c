import { FILTER_IMPORTS } from "#proxy-wasm-abi";
import type { Guest } from "./guest.js";
import { decodePairs, type HeaderMap } from "./header-map.js";
import { misuse } from "./host-errors.js";
import type { HostState, Scope } from "./host-state.js";
import type { Direction, StreamState } from "./stream-state.js";

const OK = 0;
const NOT_FOUND = 1;
const CAS_MISMATCH = 8;
const METRIC = { counter: 0, gauge: 1, histogram: 2 } as const;
const BUFFER = { requestBody: 0, responseBody: 1, vmConfiguration: 6, pluginConfiguration: 7 } as const;
/** What `_initialize` may call; the host has no context then. */
const ALLOWED_AT_START = new Set(["proxy_log", "clock_time_get"]);

type HostFunction = (...parameters: never[]) => number;

/** All host functions by their import name. `guest` is asked late, because the instance needs its imports first. */
export function createHostFunctions(state: HostState, guest: () => Guest): WebAssembly.Imports {
  const functions: Record<string, HostFunction> = {
    ...headerFunctions(state, guest),
    ...bufferFunctions(state, guest),
    ...replyFunctions(state, guest),
    ...sharedDataFunctions(state, guest),
    ...metricFunctions(state, guest),
    ...otherFunctions(state, guest),
  };
  const imports: Record<string, Record<string, HostFunction>> = { env: {}, wasi_snapshot_preview1: {} };
  for (const path of Object.keys(FILTER_IMPORTS)) {
    const [module = "", name = ""] = path.split(".");
    const target = functions[name];
    if (target === undefined) throw new Error(`the mock host lacks ${path}`);
    const folder = imports[module];
    if (folder === undefined) throw new Error(`the mock host has no import module ${module}`);
    folder[name] = guarded(name, target, state, guest);
  }
  return imports;
}

function guarded(name: string, target: HostFunction, state: HostState, guest: () => Guest): HostFunction {
  return (...parameters) => {
    if (state.scope === undefined) misuse(`${name} outside of a callback`);
    if (guest().inMalloc) misuse(`${name} inside of malloc`);
    if (state.scope.callback === "_initialize" && !ALLOWED_AT_START.has(name)) misuse(`${name} in _initialize`);
    return target(...parameters);
  };
}

function scopeOf(state: HostState): Scope {
  return state.scope ?? misuse("outside of a callback");
}

function streamOf(state: HostState, what: string): StreamState {
  const scope = scopeOf(state);
  return scope.stream ?? misuse(`${what} in ${scope.callback}, which has no stream`);
}

/** The map with this number, if the callback may touch it. */
function mapOf(state: HostState, map: number, changes: boolean): HeaderMap {
  const scope = scopeOf(state);
  const stream = streamOf(state, "header map");
  if (map === 1 && scope.callback === "proxy_on_request_trailers" && stream.request.trailers) {
    return stream.request.trailers;
  }
  if (map !== 0 && map !== 2) misuse(`header map ${map} is unknown in ${scope.callback}; request is 0, response is 2`);
  const direction = map === 0 ? stream.request : stream.response;
  const phase = map === 0 ? "request" : "response";
  const atHeaders = scope.callback === `proxy_on_${phase}_headers`;
  const inHeldBody =
    direction.held && [`proxy_on_${phase}_body`, `proxy_on_${phase}_trailers`].includes(scope.callback);
  const inLog = scope.callback === "proxy_on_log" && !changes;
  if (!atHeaders && !inHeldBody && !inLog) misuse(`${phase} headers in ${scope.callback}, where they are gone`);
  if (changes && map === 0 && stream.reply) misuse("request headers are changed after a local response");
  return direction.headers ?? misuse(`${phase} headers of a stream that has none`);
}

function headerFunctions(state: HostState, guest: () => Guest) {
  const name = (pointer: number, length: number) => guest().text(pointer, length, "header name");
  const value = (pointer: number, length: number) => guest().text(pointer, length, "header value");
  return {
    proxy_get_header_map_pairs(map: number, outPointer: number, outLength: number) {
      guest().give(mapOf(state, map, false).encode(), outPointer, outLength, "get_header_map_pairs");
      return OK;
    },
    proxy_get_header_map_value(map: number, pointer: number, length: number, outPointer: number, outLength: number) {
      const found = mapOf(state, map, false).first(name(pointer, length));
      if (found === undefined) return NOT_FOUND;
      guest().give(Buffer.from(found, "latin1"), outPointer, outLength, "get_header_map_value");
      return OK;
    },
    proxy_add_header_map_value(map: number, pointer: number, length: number, at: number, bytes: number) {
      mapOf(state, map, true).add(name(pointer, length), value(at, bytes));
      return OK;
    },
    proxy_replace_header_map_value(map: number, pointer: number, length: number, at: number, bytes: number) {
      mapOf(state, map, true).replace(name(pointer, length), value(at, bytes));
      return OK;
    },
    proxy_remove_header_map_value(map: number, pointer: number, length: number) {
      mapOf(state, map, true).remove(name(pointer, length));
      return OK;
    },
  };
}

/** The body that the callback may touch. */
function bodyOf(state: HostState, buffer: number): Direction {
  const scope = scopeOf(state);
  const stream = streamOf(state, "body");
  const phase = buffer === BUFFER.requestBody ? "request" : "response";
  if (scope.callback !== `proxy_on_${phase}_body`) misuse(`${phase} body in ${scope.callback}`);
  return phase === "request" ? stream.request : stream.response;
}

function bufferFunctions(state: HostState, guest: () => Guest) {
  const content = (buffer: number): Uint8Array => {
    const scope = scopeOf(state);
    if (buffer === BUFFER.requestBody || buffer === BUFFER.responseBody) return bodyOf(state, buffer).buffer;
    if (buffer === BUFFER.vmConfiguration && scope.callback === "proxy_on_vm_start") return Buffer.alloc(0);
    if (buffer === BUFFER.pluginConfiguration && scope.configuration) return scope.configuration;
    return misuse(`buffer ${buffer} in ${scope.callback}`);
  };
  return {
    proxy_get_buffer_bytes(buffer: number, start: number, length: number, outPointer: number, outLength: number) {
      const bytes = content(buffer);
      if (start >>> 0 > bytes.length) misuse(`get_buffer_bytes from ${start >>> 0} on ${bytes.length} bytes`);
      const part = bytes.subarray(start >>> 0, (start >>> 0) + (length >>> 0));
      // As Envoy: Ok without writing anything when there is nothing.
      if (part.length > 0) guest().give(part, outPointer, outLength, "get_buffer_bytes");
      return OK;
    },
    proxy_set_buffer_bytes(buffer: number, start: number, length: number, pointer: number, bytes: number) {
      if (buffer !== BUFFER.requestBody && buffer !== BUFFER.responseBody) misuse(`buffer ${buffer} cannot be set`);
      const body = bodyOf(state, buffer);
      if (streamOf(state, "body").reply && buffer === BUFFER.requestBody) {
        misuse("request body is changed after a local response");
      }
      body.replace(start >>> 0, length >>> 0, guest().read(pointer, bytes, "set_buffer_bytes"));
      return OK;
    },
  };
}

function replyFunctions(state: HostState, guest: () => Guest) {
  return {
    proxy_send_local_response(...parameters: number[]) {
      const [httpStatus = 0, detailsAt = 0, details = 0, bodyAt = 0, body = 0, pairsAt = 0, pairs = 0, grpcStatus = 0] =
        parameters;
      const scope = scopeOf(state);
      const stream = streamOf(state, "local response");
      if (!scope.callback.startsWith("proxy_on_request_")) misuse(`local response in ${scope.callback}`);
      if (stream.reply) misuse("a second local response");
      if (httpStatus < 200 || httpStatus > 599) misuse(`local response with HTTP status ${httpStatus}`);
      if (grpcStatus < -1 || grpcStatus > 16) misuse(`local response with gRPC status ${grpcStatus}`);
      stream.reply = {
        httpStatus,
        grpcStatus,
        details: guest().text(detailsAt, details, "details"),
        body: guest().text(bodyAt, body, "body of a local response"),
        headers: pairs === 0 ? [] : decodePairs(guest().read(pairsAt, pairs, "headers of a local response")),
      };
      return OK;
    },
  };
}

function sharedDataFunctions(state: HostState, guest: () => Guest) {
  const { data } = state.shared;
  return {
    proxy_get_shared_data(pointer: number, length: number, outPointer: number, outLength: number, outCas: number) {
      const entry = data.get(guest().text(pointer, length, "key of shared data"));
      if (entry === undefined) return NOT_FOUND;
      guest().give(entry.value, outPointer, outLength, "get_shared_data");
      guest().writeU32(outCas, entry.cas, "get_shared_data");
      return OK;
    },
    /** 0 overwrites; any number creates an absent key; otherwise it must be the stored one. */
    proxy_set_shared_data(pointer: number, length: number, at: number, bytes: number, cas: number) {
      const key = guest().text(pointer, length, "key of shared data");
      const entry = data.get(key);
      if (entry !== undefined && cas !== 0 && cas >>> 0 !== entry.cas) return CAS_MISMATCH;
      data.set(key, { value: guest().read(at, bytes, "set_shared_data"), cas: (entry?.cas ?? 0) + 1 });
      return OK;
    },
  };
}

function metricFunctions(state: HostState, guest: () => Guest) {
  const { metrics } = state.shared;
  const byId = (id: number) => {
    for (const metric of metrics.values()) if (metric.id === id >>> 0) return metric;
    return misuse(`metric ${id >>> 0} is not defined`);
  };
  return {
    proxy_define_metric(type: number, pointer: number, length: number, out: number) {
      const name = guest().text(pointer, length, "name of a metric");
      if (!/^[A-Za-z_][A-Za-z0-9_.]*$/.test(name)) misuse(`metric name ${JSON.stringify(name)}`);
      const known = metrics.get(name);
      if (known && known.type !== type) misuse(`metric ${name} is defined with another type`);
      const metric = known ?? { id: (metrics.size + 1) * 4 + type, type, value: 0n };
      metrics.set(name, metric);
      guest().writeU32(out, metric.id, "define_metric");
      return OK;
    },
    proxy_increment_metric(id: number, offset: bigint) {
      const metric = byId(id);
      if (metric.type === METRIC.counter && offset <= 0n) misuse(`a counter grows by ${offset}`);
      if (metric.type === METRIC.histogram) misuse("a histogram is incremented");
      metric.value += offset;
      return OK;
    },
    proxy_record_metric(id: number, value: bigint) {
      byId(id).value = BigInt.asUintN(64, value);
      return OK;
    },
    proxy_get_metric(id: number, out: number) {
      const metric = byId(id);
      if (metric.type === METRIC.histogram) misuse("a histogram is read");
      guest().writeU64(out, metric.value, "get_metric");
      return OK;
    },
  };
}

function otherFunctions(state: HostState, guest: () => Guest) {
  return {
    proxy_log(level: number, pointer: number, length: number) {
      if (level < 0 || level > 5) misuse(`log level ${level}`);
      state.logs.push({ level, text: guest().read(pointer, length, "log message").toString("utf8") });
      return OK;
    },
    proxy_get_log_level(out: number) {
      guest().writeU32(out, state.logLevel, "get_log_level");
      return OK;
    },
    proxy_set_tick_period_milliseconds(periodMs: number) {
      if (scopeOf(state).stream) misuse("the tick period is set within a stream");
      state.tickPeriodMs = periodMs;
      return OK;
    },
    proxy_get_property(pointer: number, length: number, outPointer: number, outLength: number) {
      const path = guest().text(pointer, length, "property path").replaceAll("\0", ".");
      const value = state.properties.get(path);
      if (value === undefined) return NOT_FOUND;
      guest().give(value, outPointer, outLength, "get_property");
      return OK;
    },
    proxy_set_property(pointer: number, length: number, at: number, bytes: number) {
      guest().text(pointer, length, "property path");
      guest().read(at, bytes, "property value");
      return OK;
    },
    clock_time_get(clock: number, _precision: bigint, out: number) {
      if (clock !== 0 && clock !== 1) misuse(`clock ${clock}`);
      guest().writeU64(out, state.clockNs(), "clock_time_get");
      return OK;
    },
  };
}
