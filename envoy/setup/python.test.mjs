import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { findPython } from "./python.mjs";

let dir;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "python-test-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** A command that answers the probe like a Python of that version. */
function fakePython(version, venv = true) {
  const path = join(dir, "python");
  const answer = JSON.stringify({ version, full: `${version}.1`, prefix: "/usr", venv, libraryDirs: [] });
  writeFileSync(path, `#!/bin/sh\necho '${answer}'\n`);
  chmodSync(path, 0o755);
  return path;
}

function failureOf(env) {
  try {
    findPython(env);
  } catch (error) {
    return { message: error.message, remedy: error.remedy };
  }
  return undefined;
}

it.each(["3.11", "3.12"])("takes Python %s", (version) => {
  expect(findPython({ PYTHON: fakePython(version) })).toMatchObject({ version });
});

it("names the Python that is too new and what to do", () => {
  const failure = failureOf({ PYTHON: fakePython("3.13") });
  expect(failure.message).toContain("is 3.13.1");
  expect(failure.remedy).toContain("python3.11-venv");
});

it("names the missing venv module and its package", () => {
  expect(failureOf({ PYTHON: fakePython("3.12", false) })).toEqual({
    message: "Python 3.12.1 has no venv module",
    remedy: expect.stringContaining("apt install python3.12-venv"),
  });
});

it("says so when there is no Python at all", () => {
  expect(failureOf({ PYTHON: join(dir, "none") }).message).toContain("3.11 or 3.12 is needed");
});
