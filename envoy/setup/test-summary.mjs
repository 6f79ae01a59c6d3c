/**
 * Prints one line, "N passed, N failed, N skipped", from vitest's JSON report.
 * A test file that could not be loaded counts as one failure, although no test of it ran. Exit status 1 if anything failed,
 * if nothing passed, or if there is no report.
 *
 * Usage: node envoy/setup/test-summary.mjs REPORT.json
 */
import { readFileSync } from "node:fs";

function count(report) {
  const tests = report.testResults.flatMap((file) => file.assertionResults);
  const of = (...states) => tests.filter((test) => states.includes(test.status)).length;
  const brokenFiles = report.testResults.filter(
    (file) => file.status === "failed" && !file.assertionResults.some((test) => test.status === "failed"),
  ).length;
  return {
    passed: of("passed"),
    failed: of("failed") + brokenFiles,
    skipped: of("skipped", "pending", "todo", "disabled"),
  };
}

function readReport(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    console.error(`no test report at ${path}: ${error.message}; the tests did not get to run or were cut off`);
    return undefined;
  }
}

const report = readReport(process.argv[2] ?? "var/ci/vitest.json");
const { passed, failed, skipped } = report ? count(report) : { passed: 0, failed: 1, skipped: 0 };
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
