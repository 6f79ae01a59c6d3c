import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, it } from "vitest";
import { repositoryRoot } from "../run/paths.js";
import { findBasePort } from "../run/ports.js";

/** Compiled, because it runs in a process of its own. */
const MAIN = join(repositoryRoot, "envoy", "dist", "demo", "main.js");

/** Runs the demo to its end; only for command lines and surroundings that keep it from starting. */
function demo(
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<{ code: number | null; text: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [MAIN, ...args], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (text += chunk.toString()));
    child.once("close", (code) => resolve({ code, text: text.trim() }));
  });
}

it("ends with status 2 for a flag that it does not know", async () => {
  expect(await demo(["--nosuch"])).toEqual({ code: 2, text: "error: unknown option '--nosuch'" });
});

it("explains its flags", async () => {
  const { code, text } = await demo(["--help"]);
  expect(code).toBe(0);
  for (const flag of ["--exit", "--json <file>", "--base-port <n>"]) expect(text).toContain(flag);
});

it.each([
  ["a missing Envoy", { ENVOY_BIN: "/nosuch/envoy" }, "ENVOY_BIN: /nosuch/envoy is not an executable file"],
  ["a missing Triton", { TRITON_BIN: "/nosuch/triton" }, "TRITON_BIN: /nosuch/triton is not an executable file"],
  ["a missing Python", { SERVEMESH_PYTHON: "/nosuch/py" }, "SERVEMESH_PYTHON: /nosuch/py is not an executable file"],
])("ends with status 1 and one line for %s", async (_, env, line) => {
  const { code, text } = await demo(["--exit"], env);
  expect(code).toBe(1);
  expect(text.split("\n")).toHaveLength(1);
  expect(text).toContain(`demo: ${line}; `);
});

it("ends with status 1 and one line that names a taken port and the flag", async () => {
  const base = await findBasePort(4, 28_000, 30_000);
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(base + 3, "127.0.0.1", resolve));
  const { code, text } = await demo(["--exit", "--base-port", String(base)]);
  await new Promise((resolve) => server.close(resolve));
  expect(code).toBe(1);
  expect(text).toBe(
    `demo: port ${base + 3} (the control plane's ADS) is taken; end what listens there, or move all ports with --base-port N`,
  );
});
