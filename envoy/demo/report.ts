import type { Check } from "./check.js";
import type { StoryResult } from "./story.js";

/** `gate 0.05, features 0.90, … ms` */
export function formatStages(stages: ReadonlyMap<string, number>): string {
  return `${[...stages].map(([stage, ms]) => `${stage} ${ms.toFixed(2)}`).join(", ")} ms`;
}

/** One story as it stands in the report. */
export function formatStory(number: number, title: string, result: StoryResult, seconds: number): string {
  const failed = result.checks.filter(({ pass }) => !pass);
  const verdict = failed.length === 0 ? "ok" : "FAILED";
  return [
    `${String(number).padStart(2)}. ${title}  [${verdict}, ${result.checks.length} checks, ${seconds.toFixed(1)} s]`,
    ...result.lines.map((line) => `      ${line}`),
    ...failed.map(formatFailure),
  ].join("\n");
}

function formatFailure({ name, value, expected }: Check): string {
  return `      NOT AS EXPECTED: ${name}: got ${JSON.stringify(value)}, expected ${JSON.stringify(expected)}`;
}

/** The last line of the report. */
export function formatSummary(checks: readonly Check[], seconds: number): string {
  const passed = checks.filter(({ pass }) => pass).length;
  return `${passed} of ${checks.length} checks passed in ${seconds.toFixed(1)} s`;
}

/** What `--json` writes. */
export function toJsonReport(checks: readonly Check[]): { ok: boolean; checks: readonly Check[] } {
  return { ok: checks.length > 0 && checks.every(({ pass }) => pass), checks };
}
