import { beforeAll, describe, expect, it, vi } from "vitest";
import { compileFilter } from "#compile-filter";
import { readModule } from "../modules/files.js";
import { HostMisuseError, ModuleLoadError, ModuleTrapError } from "./host-errors.js";
import { SharedState } from "./host-state.js";
import { createMockHost, type MockHost } from "./mock-host.js";

// The compiler of AssemblyScript takes a while on a busy machine.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

/** A filter that breaks the one rule whose number is its configuration's first byte; 0, 35, 45 and 70 break none. */
const SOURCE = `
@external("env", "proxy_log") declare function log(level: u32, p: usize, n: u32): u32;
@external("env", "proxy_get_buffer_bytes") declare function getBuffer(b: u32, s: u32, n: u32, p: usize, l: usize): u32;
@external("env", "proxy_set_buffer_bytes") declare function setBuffer(b: u32, s: u32, n: u32, p: usize, l: u32): u32;
@external("env", "proxy_get_header_map_pairs") declare function pairs(m: u32, p: usize, l: usize): u32;
@external("env", "proxy_get_header_map_value") declare function get(m: u32, k: usize, kn: u32, p: usize, l: usize): u32;
@external("env", "proxy_add_header_map_value") declare function add(m: u32, k: usize, kn: u32, v: usize, vn: u32): u32;
@external("env", "proxy_replace_header_map_value") declare function replace(m: u32, k: usize, kn: u32, v: usize, vn: u32): u32;
@external("env", "proxy_remove_header_map_value") declare function remove(m: u32, k: usize, kn: u32): u32;
@external("env", "proxy_send_local_response") declare function reply(s: u32, d: usize, dn: u32, b: usize, bn: u32, h: usize, hn: u32, g: i32): u32;
@external("env", "proxy_define_metric") declare function define(t: u32, p: usize, n: u32, o: usize): u32;
@external("env", "proxy_increment_metric") declare function increment(m: u32, o: i64): u32;
@external("env", "proxy_get_metric") declare function metric(m: u32, o: usize): u32;
@external("env", "proxy_get_shared_data") declare function getShared(k: usize, kn: u32, p: usize, l: usize, c: usize): u32;
@external("env", "proxy_set_shared_data") declare function setShared(k: usize, kn: u32, v: usize, vn: u32, c: u32): u32;
@external("env", "proxy_set_tick_period_milliseconds") declare function tick(ms: u32): u32;
@external("env", "proxy_get_property") declare function property(k: usize, kn: u32, p: usize, l: usize): u32;
@external("wasi_snapshot_preview1", "clock_time_get") declare function clock(c: u32, p: u64, o: usize): u32;

const out = memory.data(32);
const block = memory.data(65536);
let mode: u32 = 0;
let counter: u32 = 0;
export function proxy_abi_version_0_2_1(): void {}
export function malloc(size: usize): usize {
  if (mode === 60) return 0;
  if (mode === 61) return 0xfffffff0;
  if (mode === 62) log(2, block, 0);
  return block;
}
const names = memory.data(4096);
function put(at: usize, value: string): void {
  String.UTF8.encodeUnsafe(changetype<usize>(value), value.length, names + at);
}
export function proxy_on_vm_start(root: u32, size: u32): u32 { return 1; }
export function proxy_on_configure(root: u32, size: u32): u32 {
  getBuffer(7, 0, 1, out, out + 4);
  mode = load<u8>(load<u32>(out));
  put(0, "x-a"); put(8, "X-A"); put(16, ":path"); put(32, "v\\n"); put(48, "test_total"); put(64, "bad name"); put(80, "key");
  if (mode === 100) return 0;
  if (mode === 101) { put(128, "no thanks"); log(4, names + 128, 9); return 0; }
  if (mode === 50) define(0, names + 64, 8, out);
  if (mode === 51) tick(50);
  define(0, names + 48, 10, out);
  counter = load<u32>(out);
  if (mode === 52) { define(1, names + 48, 10, out); }
  if (mode === 53) pairs(0, out, out + 4);
  if (mode === 54) getBuffer(0, 0, 1, out, out + 4);
  return 1;
}
export function proxy_on_tick(root: u32): void { if (mode === 55) reply(200, 0, 0, 0, 0, 0, 0, -1); }
export function proxy_on_request_headers(id: u32, n: u32, end: u32): u32 {
  switch (mode) {
    case 1: pairs(9, out, out + 4); break;
    case 2: pairs(2, out, out + 4); break;
    case 3: get(0, 0xfffffff0, 3, out, out + 4); break;
    case 4: get(0, names, 3, 0xfffffff0, out); break;
    case 5: replace(0, names + 8, 3, names, 1); break;
    case 6: replace(0, names, 3, names + 32, 2); break;
    case 7: remove(0, names + 16, 5); break;
    case 8: add(0, names + 16, 5, names, 1); break;
    case 9: reply(429, 0, 0, 0, 0, 0, 0, 8); reply(429, 0, 0, 0, 0, 0, 0, 8); return 1;
    case 10: reply(429, 0, 0, 0, 0, 0, 0, 8); replace(0, names, 3, names, 1); return 1;
    case 11: reply(429, 0, 0, 0, 0, 0, 0, 8); return 0;
    case 12: store<u32>(block, 0); reply(429, 0, 0, 0, 0, block, 5, 8); return 1;
    case 13: store<u32>(block, 1); reply(429, 0, 0, 0, 0, block, 4, 8); return 1;
    case 14: reply(99, 0, 0, 0, 0, 0, 0, 8); return 1;
    case 15: return 7;
    case 16: return 1;
    case 17: getBuffer(0, 0, 10, out, out + 4); break;
    case 18: getBuffer(99, 0, 10, out, out + 4); break;
    case 19: increment(counter, 0); break;
    case 20: increment(12345, 1); break;
    case 21: unreachable(); break;
    case 22: store<u8>(0x7fffffff, 1); break;
    case 23: tick(10); break;
    case 24: clock(7, 0, out); break;
    case 25: log(9, names, 1); break;
    case 26: setBuffer(7, 0, 0, names, 1); break;
    case 60: case 61: case 62: pairs(0, out, out + 4); break;
    case 70: {
      property(names + 80, 3, out, out + 4);
      setShared(names + 80, 3, load<u32>(out), load<u32>(out, 4), 0xffffffff);
      getShared(names + 80, 3, out, out + 4, out + 8);
      store<u32>(out, setShared(names + 80, 3, names, 3, load<u32>(out, 8) + 1), 16);
      increment(counter, load<u32>(out, 16));
      break;
    }
  }
  return mode >= 30 && mode < 40 ? 1 : 0;
}
export function proxy_on_request_body(id: u32, n: u32, end: u32): u32 {
  switch (mode) {
    case 30: return 1;
    case 31: return 9;
    case 32: getBuffer(0, n + 1, 1, out, out + 4); break;
    case 33: setBuffer(0, 1, 1, names, 1); break;
    case 34: reply(400, 0, 0, 0, 0, 0, 0, 3); setBuffer(0, 0, n, names, 1); return 3;
    case 35: setBuffer(0, 0, 0, names, 3); replace(0, names, 3, names, 1); setBuffer(0, 100, 0, names, 3); return 0;
    case 40: replace(0, names, 3, names, 1); break;
  }
  return 0;
}
export function proxy_on_response_headers(id: u32, n: u32, end: u32): u32 {
  if (mode === 41) replace(0, names, 3, names, 1);
  if (mode === 42) reply(500, 0, 0, 0, 0, 0, 0, 13);
  return 0;
}
export function proxy_on_response_body(id: u32, n: u32, end: u32): u32 {
  if (mode === 43) replace(2, names, 3, names, 1);
  return 0;
}
export function proxy_on_log(id: u32): void {
  if (mode === 44) replace(0, names, 3, names, 1);
  if (mode === 45) pairs(0, out, out + 4);
}
`;

const REQUEST = [
  [":method", "POST"],
  [":path", "/"],
  ["X-A", "1"],
  ["x-a", "2"],
] as const;
let bytes: Uint8Array;

beforeAll(async () => {
  bytes = await compileFilter(SOURCE);
});

function hostIn(mode: number, options = {}): MockHost {
  const host = createMockHost(bytes, options);
  host.configure(Buffer.from([mode]));
  return host;
}

/** A whole exchange. */
function exchange(host: MockHost): void {
  const stream = host.openStream();
  if (stream.requestHeaders(REQUEST) !== "refused") stream.requestBody(Buffer.from("body"), true);
  if (!stream.reply) {
    stream.responseHeaders([[":status", "200"]]);
    stream.responseBody(Buffer.from("answer"), true);
  }
  stream.close();
}

describe("the mock host", () => {
  it("lets a filter pass that breaks no rule", () => {
    exchange(hostIn(0));
    exchange(hostIn(45));
  });

  it.each<[number, string, string]>([
    [1, "an unknown header map", "header map 9"],
    [2, "response headers in the request phase", "response headers in proxy_on_request_headers"],
    [3, "a pointer outside memory", "lie outside memory"],
    [4, "an answer address outside memory", "lie outside memory"],
    [5, "a header name in upper case", "no token in lower case"],
    [6, "a line feed in a value", "holds NUL, CR or LF"],
    [7, "removal of a pseudo-header", "removes the pseudo-header :path"],
    [8, "a second pseudo-header", "adds the pseudo-header :path"],
    [9, "two local responses", "a second local response"],
    [10, "a change after a local response", "after a local response"],
    [11, "going on after a local response", "continues after a local response"],
    [12, "a header block with a byte too many", "1 bytes too many"],
    [13, "a header block that is too short", "too short for 1 pairs"],
    [14, "an HTTP status that is none", "HTTP status 99"],
    [15, "an unknown result for headers", "returns 7"],
    [17, "a body in the header phase", "request body in proxy_on_request_headers"],
    [18, "an unknown buffer", "buffer 99"],
    [19, "a counter that does not grow", "grows by 0"],
    [20, "an unknown metric", "metric 12345"],
    [23, "a tick period set by a stream", "tick period"],
    [24, "an unknown clock", "clock 7"],
    [25, "an unknown log level", "log level 9"],
    [26, "a buffer that cannot be set", "buffer 7 cannot be set"],
    [30, "a body that is never released", "the stream hangs"],
    [31, "an unknown result for a body", "returns 9"],
    [32, "a read behind the body", "get_buffer_bytes from 5 on 4"],
    [33, "a change in the middle of the body", "only all, front and end"],
    [34, "a body changed after a local response", "after a local response"],
    [40, "request headers that are gone", "where they are gone"],
    [41, "request headers in the response phase", "where they are gone"],
    [42, "a local response in the response phase", "local response in proxy_on_response_headers"],
    [43, "response headers that are gone", "where they are gone"],
    [44, "a change in on_log", "where they are gone"],
    [60, "a malloc without a block", "gave no block"],
    [61, "a malloc block outside memory", "lie outside memory"],
    [62, "a host call inside of malloc", "inside of malloc"],
  ])("mode %i: refuses %s", (mode, _, message) => {
    const host = hostIn(mode < 60 ? mode : 0);
    // These would already break on_configure, which reads its configuration by malloc.
    if (mode >= 60)
      expect(() => {
        hostIn(mode);
        exchange(hostIn(mode));
      }).toThrow(message);
    else expect(() => exchange(host)).toThrow(message);
  });

  it.each<[number, string]>([
    [50, "metric name"],
    [52, "another type"],
    [53, "header map in proxy_on_configure"],
    [54, "body in proxy_on_configure"],
  ])("mode %i: refuses misuse in on_configure", (mode, message) => {
    const host = createMockHost(bytes);
    expect(() => host.configure(Buffer.from([mode]))).toThrow(message);
  });

  it("refuses to stop a stream that nobody would continue", () => {
    expect(() => hostIn(16).openStream().requestHeaders(REQUEST, true)).toThrow("it hangs");
    expect(() => hostIn(30, { allowHeaderStop: false }).openStream().requestHeaders(REQUEST, false)).toThrow(
      "without the flag",
    );
  });

  it("keeps the time of ticks and refuses a local response in one", () => {
    expect(hostIn(51).tickPeriodMs).toBe(50);
    expect(() => hostIn(55).tick()).toThrow("which has no stream");
  });

  it("a trap is a ModuleTrapError, and the VM is lost for every later stream", () => {
    for (const mode of [21, 22]) {
      const host = hostIn(mode);
      expect(() => exchange(host)).toThrow(ModuleTrapError);
      expect(() => exchange(host)).toThrow("has already failed");
    }
    const misused = hostIn(1);
    expect(() => exchange(misused)).toThrow(HostMisuseError);
  });

  it("holds headers back until the body continues, and applies changes at both ends of the body", () => {
    const stream = hostIn(35).openStream();
    expect(stream.requestHeaders(REQUEST)).toBe("held");
    expect(stream.upstream.headers).toEqual([]);
    expect(stream.requestBody(Buffer.from("body"), true)).toBe("passed");
    expect(stream.upstream.body.toString("latin1")).toBe("x-abodyx-a");
    expect(stream.upstream.headers).toEqual([
      [":method", "POST"],
      [":path", "/"],
      ["x-a", "x"],
    ]);
    expect(stream.upstream.ended).toBe(true);
    stream.close();
  });

  it("releases what a filter holds back when trailers come that it does not look at, as Envoy does", () => {
    const stream = hostIn(30).openStream();
    expect(stream.requestHeaders(REQUEST)).toBe("held");
    expect(stream.requestBody(Buffer.from("body"))).toBe("held");
    expect(stream.requestTrailers([["x-t", "1"]])).toBe("passed");
    expect(stream.upstream.body.toString()).toBe("body");
    expect(stream.upstream.headers.length).toBeGreaterThan(0);
    stream.close();
  });

  it("shares data and metrics between VMs of one process, and keeps compare-and-swap", () => {
    const shared = new SharedState();
    const properties = new Map([["key", Buffer.from("value")]]);
    exchange(hostIn(70, { shared, properties }));
    expect(shared.data.get("key")?.value.toString()).toBe("value");
    // Set with a wrong number gave CasMismatch (8), which the filter adds to its counter.
    expect(hostIn(0, { shared }).metrics.get("test_total")).toBe(8n);
  });

  it("refuses the test's own slips", () => {
    const host = hostIn(0);
    const stream = host.openStream();
    expect(() => stream.requestBody(Buffer.alloc(0))).toThrow("before its headers");
    stream.requestHeaders(REQUEST, true);
    expect(() => stream.requestHeaders(REQUEST)).toThrow("twice");
    expect(() => stream.requestBody(Buffer.alloc(0))).toThrow("after its end");
    stream.close();
    expect(() => stream.close()).toThrow("closes a stream twice");
    expect(() => stream.responseHeaders([[":status", "200"]])).toThrow("closed stream");
    expect(() => host.global("nosuch")).toThrow("exports no global");
  });
});

const CALLBACKS = `
@external("env", "proxy_log") declare function log(level: u32, p: usize, n: u32): u32;
@external("env", "proxy_define_metric") declare function define(t: u32, p: usize, n: u32, o: usize): u32;
export function proxy_abi_version_0_2_1(): void {}
export function malloc(size: usize): usize { return heap.alloc(size); }
export function proxy_on_configure(root: u32, size: u32): u32 { return 1; }
const p = memory.data(16);
`;

describe("a module that Envoy could not load", () => {
  it.each<[string, string, string[], string]>([
    ["has a start section", `${CALLBACKS} log(2, p, 1);`, [], "has a start section, which crashes Envoy"],
    [
      "calls the host in _initialize",
      `${CALLBACKS} define(0, p, 1, p);`,
      ["--exportStart", "_initialize"],
      "proxy_define_metric in _initialize",
    ],
    [
      "imports what no host has",
      `${CALLBACKS} @external("env", "abort2") declare function a(): void; export function _initialize(): void { a(); }`,
      [],
      "imports env.abort2",
    ],
    [
      "imports with another type",
      `${CALLBACKS} @external("env", "proxy_get_log_level") declare function a(x: i64): u32; export function _initialize(): void { a(1); }`,
      [],
      "imports env.proxy_get_log_level as (i64) -> i32",
    ],
    [
      "exports a callback with another type",
      `${CALLBACKS} export function proxy_on_log(a: u32, b: u32): void {}`,
      ["--exportStart", "_initialize"],
      "exports proxy_on_log as (i32 i32) -> ()",
    ],
    [
      "lacks malloc",
      CALLBACKS.replace("function malloc", "function malloc2"),
      ["--exportStart", "_initialize"],
      "does not export malloc",
    ],
    [
      "lacks the ABI's mark (C113)",
      CALLBACKS.replace("export function proxy_abi", "function proxy_abi"),
      ["--exportStart", "_initialize"],
      "does not export proxy_abi_version_0_2_1",
    ],
    ["lacks _initialize", CALLBACKS, [], "does not export _initialize"],
  ])("because it %s is refused", async (_, source, options, problem) => {
    const module = await compileFilter(source, options);
    expect(() => createMockHost(module)).toThrow(problem);
  });

  it("because it is no WebAssembly is refused", () => {
    expect(() => createMockHost(Buffer.from("not wasm"))).toThrow(ModuleLoadError);
    expect(() => createMockHost(readModule("transform-ranker").bytes)).toThrow("does not export malloc");
  });
});
