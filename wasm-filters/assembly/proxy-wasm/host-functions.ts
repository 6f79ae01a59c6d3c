/*
 * The host functions of Proxy-Wasm ABI 0.2.1 that this SDK uses, as the host declares them. Each returns a status of
 * status.ts. Pairs of `pointer, length` describe bytes of the module; `outPointer, outLength` (or `out`) are addresses
 * where the host writes its answer. Answers with bytes are put into memory that the host gets from our `malloc`.
 *
 * A name or type that the host does not know makes the module fail to load, so a filter imports only what it uses:
 * AssemblyScript leaves out functions that are never called.
 */

@external("env", "proxy_log")
export declare function proxy_log(level: u32, message: usize, messageLength: u32): u32;

@external("env", "proxy_get_log_level")
export declare function proxy_get_log_level(out: usize): u32;

@external("env", "proxy_set_tick_period_milliseconds")
export declare function proxy_set_tick_period_milliseconds(periodMs: u32): u32;

@external("env", "proxy_get_property")
export declare function proxy_get_property(path: usize, pathLength: u32, outPointer: usize, outLength: usize): u32;

@external("env", "proxy_set_property")
export declare function proxy_set_property(path: usize, pathLength: u32, value: usize, valueLength: u32): u32;

@external("env", "proxy_get_shared_data")
export declare function proxy_get_shared_data(
  key: usize, keyLength: u32, outPointer: usize, outLength: usize, outCas: usize,
): u32;

@external("env", "proxy_set_shared_data")
export declare function proxy_set_shared_data(
  key: usize, keyLength: u32, value: usize, valueLength: u32, cas: u32,
): u32;

@external("env", "proxy_get_header_map_pairs")
export declare function proxy_get_header_map_pairs(map: u32, outPointer: usize, outLength: usize): u32;

@external("env", "proxy_get_header_map_value")
export declare function proxy_get_header_map_value(
  map: u32, name: usize, nameLength: u32, outPointer: usize, outLength: usize,
): u32;

@external("env", "proxy_add_header_map_value")
export declare function proxy_add_header_map_value(
  map: u32, name: usize, nameLength: u32, value: usize, valueLength: u32,
): u32;

@external("env", "proxy_replace_header_map_value")
export declare function proxy_replace_header_map_value(
  map: u32, name: usize, nameLength: u32, value: usize, valueLength: u32,
): u32;

@external("env", "proxy_remove_header_map_value")
export declare function proxy_remove_header_map_value(map: u32, name: usize, nameLength: u32): u32;

@external("env", "proxy_get_buffer_bytes")
export declare function proxy_get_buffer_bytes(
  buffer: u32, start: u32, length: u32, outPointer: usize, outLength: usize,
): u32;

@external("env", "proxy_set_buffer_bytes")
export declare function proxy_set_buffer_bytes(
  buffer: u32, start: u32, length: u32, value: usize, valueLength: u32,
): u32;

@external("env", "proxy_send_local_response")
export declare function proxy_send_local_response(
  httpStatus: u32, details: usize, detailsLength: u32, body: usize, bodyLength: u32,
  headers: usize, headersLength: u32, grpcStatus: i32,
): u32;

@external("env", "proxy_define_metric")
export declare function proxy_define_metric(type: u32, name: usize, nameLength: u32, out: usize): u32;

@external("env", "proxy_increment_metric")
export declare function proxy_increment_metric(metric: u32, offset: i64): u32;

@external("env", "proxy_record_metric")
export declare function proxy_record_metric(metric: u32, value: u64): u32;

@external("env", "proxy_get_metric")
export declare function proxy_get_metric(metric: u32, out: usize): u32;

/** Of WASI, which the host offers beside its own functions. */
@external("wasi_snapshot_preview1", "clock_time_get")
export declare function clock_time_get(clock: u32, precision: u64, out: usize): u32;
