import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";

let dir;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "summary-test-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function summary(testResults) {
  const path = join(dir, "report.json");
  rmSync(path, { force: true });
  if (testResults) writeFileSync(path, JSON.stringify({ testResults }));
  const script = fileURLToPath(new URL("test-summary.mjs", import.meta.url));
  const { status, stdout } = spawnSync(process.execPath, [script, path], { encoding: "utf8" });
  return { status, lines: stdout.trim().split("\n") };
}

const file = (status, ...tests) => ({ status, assertionResults: tests.map((test) => ({ status: test })) });

it("counts the tests", () => {
  const report = [file("passed", "passed", "passed", "skipped"), file("passed", "passed", "todo", "pending")];
  expect(summary(report)).toEqual({ status: 0, lines: ["3 passed, 0 failed, 3 skipped"] });
});

it("fails for a failed test, and for a file that could not be loaded", () => {
  const report = [file("failed", "passed", "failed"), file("failed")];
  expect(summary(report)).toEqual({ status: 1, lines: ["1 passed, 2 failed, 0 skipped"] });
});

it("fails when nothing ran or there is no report", () => {
  expect(summary([])).toEqual({ status: 1, lines: ["0 passed, 0 failed, 0 skipped"] });
  expect(summary(undefined)).toEqual({ status: 1, lines: ["0 passed, 1 failed, 0 skipped"] });
});
