/**
 * Makes a fresh clone ready: packages, generated code, Wasm modules, compiled TypeScript, the demo's models.
 * Only Node built-ins, because it runs before anything is installed. Every step has a stamp of its inputs, so a second run
 * only looks. Progress goes to standard error.
 */
import { parseArgs } from "node:util";
import { killRunning } from "./command.mjs";
import { SetupFailure } from "./failure.mjs";
import { takeLock } from "./lock.mjs";
import { checkPlatform, describeOverrides } from "./platform.mjs";
import { findPython } from "./python.mjs";
import { fingerprint, isUpToDate, removeStamp, writeStamp } from "./stamp.mjs";
import { planSteps } from "./steps.mjs";

const HELP = `Usage: npm run setup -- [options]      (or: node envoy/setup/main.mjs [options])

Prepares everything that servemesh needs below this folder: node_modules, .venv, .setup and build outputs. No root, no compiler.

  --no-models         leave out the demo's data and models (npm run check needs none)
  --quiet-when-done   print nothing when everything is up to date
  --help              this text

Environment: PYTHON (a Python 3.11 or 3.12), ENVOY_BIN and TRITON_BIN (your own binaries), PIP_INDEX_URL and npm's settings.
Logs: .setup/logs. To begin anew: rm -rf .setup .venv node_modules`;

const OPTIONS = {
  "no-models": { type: "boolean", default: false },
  "quiet-when-done": { type: "boolean", default: false },
  help: { type: "boolean", default: false },
};

const say = (line) => process.stderr.write(`${line}\n`);
const seconds = (sinceMs) => `${((performance.now() - sinceMs) / 1000).toFixed(1)} s`;

/** Runs one step if its inputs changed. @returns {Promise<boolean>} whether it had to run */
async function runStep(step, label, quiet) {
  const startedMs = performance.now();
  const print = fingerprint(await step.inputs());
  if (isUpToDate(step.name, print, step.outputs) && (step.stillFits?.() ?? true)) {
    if (!quiet) say(`${label} ${step.name}: up to date`);
    return false;
  }
  if (step.alreadyDone?.()) {
    if (!quiet) say(`${label} ${step.name}: as they should be`);
  } else {
    say(`${label} ${step.name}: ${step.doing} ...`);
    removeStamp(step.name);
    await step.run();
    say(`${label} ${step.name}: done in ${seconds(startedMs)}`);
  }
  writeStamp(step.name, print);
  return true;
}

async function setUp(options) {
  const startedMs = performance.now();
  const quiet = options["quiet-when-done"];
  checkPlatform();
  const python = findPython(process.env);
  for (const line of describeOverrides(process.env)) say(line);
  const unlock = await takeLock((pid) => say(`another set-up (process ${pid}) is running; waiting for it`));
  process.once("exit", unlock);
  const steps = await planSteps(python, { models: !options["no-models"] });
  let ran = 0;
  for (const [index, step] of steps.entries()) {
    if (await runStep(step, `[${index + 1}/${steps.length}]`, quiet)) ran++;
  }
  if (!quiet || ran > 0) say(`set-up complete in ${seconds(startedMs)}`);
}

function explain(error) {
  if (!(error instanceof SetupFailure)) {
    say(`set-up failed: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
    return;
  }
  if (error.logTail) say(`--- end of ${error.logPath} ---\n${error.logTail}\n---`);
  say(`set-up failed: ${error.message}`);
  say(`what to do: ${error.remedy}`);
}

function readOptions() {
  try {
    return parseArgs({ options: OPTIONS, allowPositionals: false }).values;
  } catch (error) {
    say(`set-up: ${error.message}\n\n${HELP}`);
    process.exit(2);
  }
}

for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
  ["SIGHUP", 129],
]) {
  process.on(signal, () => {
    killRunning();
    say("set-up interrupted; run it again to go on");
    process.exit(code);
  });
}

const options = readOptions();
if (options.help) {
  process.stdout.write(`${HELP}\n`);
} else {
  try {
    await setUp(options);
  } catch (error) {
    explain(error);
    process.exit(1);
  }
}
