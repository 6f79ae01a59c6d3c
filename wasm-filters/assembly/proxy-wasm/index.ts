/*
 * A small SDK for Proxy-Wasm filters in AssemblyScript, ABI 0.2.1. README.md says how to write a filter with it;
 * example/ is one.
 */
export { pwAbort } from "./abort";
export { enterCallback, malloc, scratch } from "./arena";
export { readBuffer, replaceBuffer } from "./buffers";
export { monotonicNs } from "./clock";
export {
  BodyAction, Buffer, GRPC_STATUS_UNSET, HeaderMap, HeadersAction, LogLevel, MetricType, Status, TrailersAction,
} from "./constants";
export { ContextSlab } from "./context-slab";
export { HeaderPairs } from "./header-pairs";
export { addHeader, getHeader, removeHeader, removeHeaderBytes, replaceHeader, replaceHeaderBytes } from "./headers";
export { LocalResponse } from "./local-response";
export { log, logBytes, logs } from "./log";
export { defineCounter, defineGauge, incrementMetric, readMetric, recordMetric } from "./metrics";
export { literal, Span } from "./span";
export { TextBuilder } from "./text-builder";

/** Export it: its name tells the host the ABI. With this one a change of request headers also re-evaluates the route. */
export function proxy_abi_version_0_2_1(): void {}
