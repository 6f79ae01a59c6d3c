/**
 * `npm run check`: every static check of the project, one after the other, the same here and in CI. All run even when one
 * fails, so that one look shows everything. Exit status 1 if any failed.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { root } from "./paths.mjs";

const PACKAGES = ["proto", "wasm-filters", "xds-server", "batcher", "envoy", "test"];
const tool = (name) => join(root, "node_modules", ".bin", name);

/** Name, what it is for, and the command. */
const CHECKS = [
  ["format and lint", [tool("biome"), "ci", "--colors=off", "--error-on-warnings", "."]],
  ["types", [tool("tsc"), "-b"]],
  ["import rules", [tool("depcruise"), "--config", ".dependency-cruiser.cjs", ...PACKAGES]],
  ["unused code", [tool("knip"), "--no-progress", "--no-config-hints"]],
  ["buf lint", [tool("buf"), "lint"]],
  ["licences", [process.execPath, "envoy/setup/licences.mjs", "--check"]],
];

function runCheck([name, command]) {
  const startedMs = performance.now();
  const { status, stdout, stderr, error } = spawnSync(command[0], command.slice(1), {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
    timeout: 600_000,
  });
  const ok = status === 0;
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  if (!ok) process.stdout.write(`${stdout ?? ""}${stderr ?? ""}${error ? `${error.message}\n` : ""}`);
  console.log(`check ${name.padEnd(16)} ${ok ? "ok" : "FAILED"} (${seconds} s)`);
  return ok;
}

const failed = CHECKS.filter((check) => !runCheck(check)).map(([name]) => name);
console.log(failed.length === 0 ? `all ${CHECKS.length} checks passed` : `failed: ${failed.join(", ")}`);
process.exitCode = failed.length === 0 ? 0 : 1;
