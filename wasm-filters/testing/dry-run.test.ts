import { beforeAll, describe, expect, it, vi } from "vitest";
import { compileFilter } from "#compile-filter";
import { compileGateConfig } from "../config/compile.js";
import { loadGateModule, readModule } from "../modules/files.js";
import { dryRunGate } from "./dry-run.js";
import { CONFIG } from "./gate/fixture.js";

// The compiler of AssemblyScript takes a while on a busy machine.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

const gate = loadGateModule().bytes;
const blob = compileGateConfig(CONFIG);
const HEAD = `
export function proxy_abi_version_0_2_1(): void {}
export function malloc(size: usize): usize { return memory.data(65536); }
export function _initialize(): void {}
`;
const ACCEPTS = "export function proxy_on_configure(root: u32, size: u32): u32 { return 1; }";

describe("dryRunGate", () => {
  let refusing: Uint8Array;
  let trapping: Uint8Array;
  let passing: Uint8Array;
  let starting: Uint8Array;

  beforeAll(async () => {
    refusing = await compileFilter(
      `${HEAD} export function proxy_on_configure(root: u32, size: u32): u32 { return 0; }`,
      [],
    );
    trapping = await compileFilter(
      `${HEAD} ${ACCEPTS} export function proxy_on_request_headers(i: u32, n: u32, e: u32): u32 { unreachable(); return 0; }`,
      [],
    );
    passing = await compileFilter(`${HEAD} ${ACCEPTS}`, []);
    starting = await compileFilter(
      `${HEAD} ${ACCEPTS} export let counter: u32 = 0; function twice(x: u32): u32 { return load<u32>(x) * 2; } counter = twice(16);`,
      [],
    );
  });

  it("takes the built gate with a valid configuration, an empty one included", () => {
    expect(dryRunGate(gate, blob)).toEqual({ ok: true });
    expect(dryRunGate(gate, compileGateConfig({ models: [], tenants: [] }))).toEqual({ ok: true });
  });

  it.each<[string, Uint8Array, string]>([
    ["empty", Buffer.alloc(0), "shorter than its header"],
    ["cut", blob.subarray(0, blob.length - 1), "shorter than its header or than the length"],
    ["foreign", Buffer.from("burst=1000 and more bytes"), "does not begin with SMGT"],
  ])("refuses a blob that is %s, in the module's words", (_, broken, problem) => {
    const result = dryRunGate(gate, broken);
    expect(result).toMatchObject({ ok: false });
    expect(result.ok ? "" : result.problem).toContain(problem);
  });

  it("refuses modules that would crash, break or open Envoy, each in one line", () => {
    const problemOf = (module: Uint8Array) => {
      const result = dryRunGate(module, blob);
      if (result.ok) throw new Error("the module was taken");
      expect(result.problem).not.toContain("\n");
      return result.problem;
    };
    expect(problemOf(starting)).toContain("has a start section, which crashes Envoy");
    expect(problemOf(refusing)).toContain("refuses the configuration and does not say why");
    expect(problemOf(trapping)).toContain("proxy_on_request_headers trapped");
    expect(problemOf(passing)).toContain("does not let a liveness call pass");
    expect(problemOf(readModule("example").bytes)).toContain("refuses the configuration");
    expect(problemOf(readModule("transform-ranker").bytes)).toContain("does not export malloc");
    expect(problemOf(gate.subarray(0, 1000))).toContain("not valid WebAssembly");
    expect(problemOf(Buffer.alloc(0))).toContain("not valid WebAssembly");
  });
});
