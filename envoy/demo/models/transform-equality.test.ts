import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadTransform } from "@servemesh/wasm-filters";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pythonCommand } from "../../run/binaries.js";
import { modelsFolder, repositoryRoot } from "../../run/paths.js";

const MODULE = join(repositoryRoot, "wasm-filters", "build", "transform-ranker.wasm");
const SCRIPT = join(repositoryRoot, "envoy", "demo", "models", "wasm_transform.py");
/** More than the chunk of 4,096 rows in which both sides work. */
const ROWS = 5_000;

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "servemesh-transform-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Random bit patterns, so infinities, denormals and NaN payloads are among them. */
function randomBytes(length: number, seed: number): Buffer {
  const bytes = Buffer.alloc(length);
  let state = seed;
  for (let at = 0; at < length; at += 4) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes.writeUInt32LE(state, at);
  }
  return bytes;
}

/** A NaN that arithmetic makes may have any sign and payload (WebAssembly leaves it open), so such results are one. */
function withOneNan(bytes: Uint8Array, width: number): Buffer {
  const copy = Buffer.from(bytes);
  for (let at = (width - 1) * 4; at < copy.length; at += width * 4) {
    if (Number.isNaN(copy.readFloatLE(at))) copy.writeUInt32LE(0x7fc00000, at);
  }
  return copy;
}

describe("the transform in training and in serving", () => {
  it("gives equal bits in Python (wasmtime) and in Node for any input", async () => {
    const views = [randomBytes(ROWS * 24 * 4, 1), randomBytes(ROWS * 22 * 4, 2)];
    const files = views.map((view, index) => {
      writeFileSync(join(folder, `view-${index}`), view);
      return join(folder, `view-${index}`);
    });
    const output = join(folder, "output");
    execFileSync(pythonCommand(), [SCRIPT, MODULE, String(ROWS), output, ...files]);
    const transform = await loadTransform("ranker");
    const width = transform.outputWidth;
    const served = withOneNan(transform.run(ROWS, views), width);
    expect(served.length).toBe(ROWS * 47 * 4);
    expect(Buffer.compare(withOneNan(readFileSync(output), width), served)).toBe(0);
  });

  it("gives the features that the trained models were judged with", async () => {
    const check = join(modelsFolder, "check");
    // npm run check builds no models; npm test does.
    if (!existsSync(check)) return console.log(`skipped: ${check} is missing; npm run setup makes it`);
    const read = (name: string): Buffer => readFileSync(join(check, name));
    const features = read("features.f32");
    const transform = await loadTransform("ranker");
    const rows = features.length / (transform.outputWidth * 4);
    const served = transform.run(rows, [read("view-user.f32"), read("view-item.f32")]);
    expect(rows).toBe(256);
    expect(Buffer.compare(served, features)).toBe(0);
  });
});
