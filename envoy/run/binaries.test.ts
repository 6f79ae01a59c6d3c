import { describe, expect, it } from "vitest";
import { findEnvoy, findTriton, pythonCommand } from "./binaries.js";
import { RunError } from "./run-error.js";

describe("findEnvoy, findTriton", () => {
  it("take the overriding binaries as they are", () => {
    expect(findEnvoy({ ENVOY_BIN: process.execPath })).toBe(process.execPath);
    expect(findTriton({ TRITON_BIN: process.execPath })).toEqual({
      binary: process.execPath,
      pythonBackend: undefined,
    });
  });

  it.each([
    ["ENVOY_BIN", () => findEnvoy({ ENVOY_BIN: "/nosuch/envoy" })],
    ["TRITON_BIN", () => findTriton({ TRITON_BIN: "/nosuch/tritonserver" })],
    ["SERVEMESH_PYTHON", () => pythonCommand({ SERVEMESH_PYTHON: "/nosuch/python" })],
  ])("say in one line that %s is no executable and what to do", (variable, find) => {
    expect(find).toThrow(RunError);
    expect(find).toThrow(new RegExp(`^${variable}: /nosuch/\\S+ is not an executable file; \\S[^\\n]*$`));
  });

  it("say that the wheels are missing in another Python", () => {
    // It runs, but prints no folder of packages that holds an Envoy.
    expect(() => findEnvoy({ SERVEMESH_PYTHON: "/bin/echo" })).toThrow(
      /is not an executable file; run `npm run setup`/,
    );
  });

  it("find those of the set-up", () => {
    expect(findEnvoy({})).toMatch(/\/envoy$/);
    const { binary, pythonBackend } = findTriton({});
    expect(binary).toMatch(/\/tritonserver$/);
    expect(pythonBackend?.files).toHaveLength(3);
    expect(pythonBackend?.libraryFolders).toHaveLength(2);
  });
});
