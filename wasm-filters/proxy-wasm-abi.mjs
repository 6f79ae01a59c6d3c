/**
 * What a Proxy-Wasm filter may import and export, and what a module does, read from its binary. One table for the build
 * (which checks what came out of the compiler) and for the mock host (which refuses what Envoy would refuse). Plain
 * JavaScript, because the build runs before TypeScript is compiled.
 */

/** Callbacks of Proxy-Wasm 0.2.1 that our filters may export, with their types as Envoy looks them up. */
const FILTER_EXPORTS = {
  memory: "memory",
  malloc: "(i32) -> i32",
  _initialize: "() -> ()",
  proxy_abi_version_0_2_1: "() -> ()",
  proxy_on_vm_start: "(i32 i32) -> i32",
  proxy_on_configure: "(i32 i32) -> i32",
  proxy_on_tick: "(i32) -> ()",
  proxy_on_context_create: "(i32 i32) -> ()",
  proxy_on_request_headers: "(i32 i32 i32) -> i32",
  proxy_on_request_body: "(i32 i32 i32) -> i32",
  proxy_on_request_trailers: "(i32 i32) -> i32",
  proxy_on_response_headers: "(i32 i32 i32) -> i32",
  proxy_on_response_body: "(i32 i32 i32) -> i32",
  proxy_on_log: "(i32) -> ()",
  proxy_on_done: "(i32) -> i32",
  proxy_on_delete: "(i32) -> ()",
};
/** Host functions that Envoy offers and our SDK declares, with their types. */
export const FILTER_IMPORTS = {
  "env.proxy_log": "(i32 i32 i32) -> i32",
  "env.proxy_get_log_level": "(i32) -> i32",
  "env.proxy_set_tick_period_milliseconds": "(i32) -> i32",
  "env.proxy_get_property": "(i32 i32 i32 i32) -> i32",
  "env.proxy_set_property": "(i32 i32 i32 i32) -> i32",
  "env.proxy_get_shared_data": "(i32 i32 i32 i32 i32) -> i32",
  "env.proxy_set_shared_data": "(i32 i32 i32 i32 i32) -> i32",
  "env.proxy_get_header_map_pairs": "(i32 i32 i32) -> i32",
  "env.proxy_get_header_map_value": "(i32 i32 i32 i32 i32) -> i32",
  "env.proxy_add_header_map_value": "(i32 i32 i32 i32 i32) -> i32",
  "env.proxy_replace_header_map_value": "(i32 i32 i32 i32 i32) -> i32",
  "env.proxy_remove_header_map_value": "(i32 i32 i32) -> i32",
  "env.proxy_get_buffer_bytes": "(i32 i32 i32 i32 i32) -> i32",
  "env.proxy_set_buffer_bytes": "(i32 i32 i32 i32 i32) -> i32",
  "env.proxy_send_local_response": "(i32 i32 i32 i32 i32 i32 i32 i32) -> i32",
  "env.proxy_define_metric": "(i32 i32 i32 i32) -> i32",
  "env.proxy_increment_metric": "(i32 i64) -> i32",
  "env.proxy_record_metric": "(i32 i64) -> i32",
  "env.proxy_get_metric": "(i32 i32) -> i32",
  "wasi_snapshot_preview1.clock_time_get": "(i32 i64 i32) -> i32",
};
const FILTER_NEEDED = ["memory", "malloc", "_initialize", "proxy_abi_version_0_2_1", "proxy_on_configure"];

/**
 * Why Envoy would refuse (or not survive) a module with this description, one sentence each; empty when nothing is wrong.
 * Link errors otherwise show only when Envoy loads the module.
 */
export function checkFilter({ imports, exports, hasStart }) {
  const problems = [];
  if (hasStart) problems.push("has a start section, which crashes Envoy; compile with --exportStart _initialize");
  for (const [name, type] of Object.entries(imports)) {
    if (FILTER_IMPORTS[name] === undefined)
      problems.push(`imports ${name}, which is not in the list of host functions`);
    else if (FILTER_IMPORTS[name] !== type)
      problems.push(`imports ${name} as ${type}, the host has ${FILTER_IMPORTS[name]}`);
  }
  for (const [name, type] of Object.entries(exports)) {
    // Hosts look up functions and memory only; a global is nobody's concern.
    if (type === "global") continue;
    if (FILTER_EXPORTS[name] === undefined) problems.push(`exports ${name}, which no host calls`);
    else if (FILTER_EXPORTS[name] !== type)
      problems.push(`exports ${name} as ${type}, the host wants ${FILTER_EXPORTS[name]}`);
  }
  for (const name of FILTER_NEEDED) if (exports[name] === undefined) problems.push(`does not export ${name}`);
  return problems;
}

/**
 * Imports, exports and their types from the binary, because the JavaScript API tells names and kinds only. The bytes must
 * be a valid module (`WebAssembly.Module` took them); throws on kinds of imports that filters never have.
 */
export function describeModule(bytes) {
  let at = 8;
  const u32 = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++];
      value |= (byte & 127) << shift;
      if (byte < 128) return value >>> 0;
    }
  };
  const text = () => {
    const length = u32();
    at += length;
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8", at - length, at);
  };
  const valueType = () => ({ 127: "i32", 126: "i64", 125: "f32", 124: "f64" })[bytes[at++]] ?? "?";
  const list = (read) => Array.from({ length: u32() }, read);
  const limits = () => (u32() & 1 ? [u32(), u32()] : [u32()]);
  const types = [];
  const functions = [];
  const imports = {};
  const exports = {};
  let hasStart = false;
  while (at < bytes.length) {
    const id = bytes[at++];
    const end = u32() + at;
    if (id === 1) {
      list(() => {
        at++;
        types.push(`(${list(valueType).join(" ")}) -> ${list(valueType).join(" ") || "()"}`);
      });
    } else if (id === 2) {
      list(() => {
        const name = `${text()}.${text()}`;
        const kind = bytes[at++];
        if (kind === 0) imports[name] = types[functions.push(u32()) && functions.at(-1)];
        else if (kind === 2) imports[name] = `memory ${limits()}`;
        else if (kind === 3) imports[name] = `global ${valueType()} ${bytes[at++]}`;
        else throw new Error(`import ${name} has the unexpected kind ${kind}`);
      });
    } else if (id === 3) list(() => functions.push(u32()));
    else if (id === 7) {
      list(() => {
        const name = text();
        const kind = bytes[at++];
        const index = u32();
        exports[name] = kind === 0 ? types[functions[index]] : (["", "table", "memory", "global"][kind] ?? "?");
      });
    } else if (id === 8) hasStart = true;
    at = end;
  }
  return { imports, exports, hasStart };
}
