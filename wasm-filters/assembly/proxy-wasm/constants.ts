// Numbers of ABI 0.2.1. Types: include/proxy-wasm/proxy-wasm-common.h of the C++ host.

/** Results of host functions. */
export namespace Status {
  export const Ok: u32 = 0;
  export const NotFound: u32 = 1;
  export const BadArgument: u32 = 2;
  export const Empty: u32 = 7;
  export const CasMismatch: u32 = 8;
}

/** Header maps. They are only there during the callbacks of their phase, and gone once the filter said Continue. */
export namespace HeaderMap {
  export const Request: u32 = 0;
  export const RequestTrailers: u32 = 1;
  export const Response: u32 = 2;
  export const ResponseTrailers: u32 = 3;
}

export namespace Buffer {
  export const RequestBody: u32 = 0;
  export const ResponseBody: u32 = 1;
  export const VmConfiguration: u32 = 6;
  export const PluginConfiguration: u32 = 7;
}

/** What proxy_on_{request,response}_headers returns. */
export namespace HeadersAction {
  export const Continue: u32 = 0;
  /**
   * Holds the headers back. Envoy calls the body callback afterwards only with `allow_on_headers_stop_iteration: true`;
   * without it the stream hangs. Also the answer after a local response.
   */
  export const Stop: u32 = 1;
}

/** What proxy_on_{request,response}_body returns. */
export namespace BodyAction {
  export const Continue: u32 = 0;
  /** Keep what has come; the next callback sees it again together with what came since. */
  export const StopAndBuffer: u32 = 1;
  /** Drop what has come: for streams that were answered by a local response. */
  export const StopNoBuffer: u32 = 3;
}

/**
 * What proxy_on_request_trailers returns. Without this callback (or on Continue) trailers release headers that are still held
 * back: a filter that awaits a body must export it, because a body that ends with trailers has no end of stream of its own.
 */
export namespace TrailersAction {
  export const Continue: u32 = 0;
  /** After a local response. */
  export const Stop: u32 = 1;
}

export namespace LogLevel {
  export const Trace: u32 = 0;
  export const Debug: u32 = 1;
  export const Info: u32 = 2;
  export const Warn: u32 = 3;
  export const Error: u32 = 4;
  export const Critical: u32 = 5;
}

export namespace MetricType {
  export const Counter: u32 = 0;
  export const Gauge: u32 = 1;
  export const Histogram: u32 = 2;
}

/** For gRPC callers; -1 lets the host derive it from the HTTP status. */
export const GRPC_STATUS_UNSET: i32 = -1;
