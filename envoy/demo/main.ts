import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";
import { CommanderError } from "commander";
import { type LocalMesh, startLocalMesh } from "../run/local-mesh.js";
import { DEMO_CONTENTS } from "../run/mesh-contents.js";
import { repositoryRoot } from "../run/paths.js";
import { RunError } from "../run/run-error.js";
import type { Check } from "./check.js";
import { commandsToTry } from "./commands.js";
import { type DemoOptions, readDemoOptions } from "./options.js";
import { playStories } from "./play.js";
import { formatSummary, toJsonReport } from "./report.js";

const FAILURE = 1;
const USAGE = 2;
/** As a shell tells that SIGINT ended a command. */
const INTERRUPTED = 130;
/** npm and the terminal both pass Ctrl-C on; this close together it is one. */
const SAME_SIGNAL_MS = 500;

/** v41's queue is short, so that a burst of a laptop can fill it. */
const CONTENTS = {
  ...DEMO_CONTENTS,
  versions: DEMO_CONTENTS.versions.map((version) =>
    version.reference === "ranker:41" ? { ...version, serving: { maxQueueSize: 16 } } : version,
  ),
};

const say = (text: string): void => {
  process.stdout.write(`${text}\n`);
};

/** Starts, plays, stays up, ends. @returns the exit status */
async function runDemo(options: DemoOptions, interrupt: AbortSignal): Promise<number> {
  const startedMs = performance.now();
  const seconds = (): number => (performance.now() - startedMs) / 1000;
  // A second demo on other ports must not touch the first one's files.
  const folder = join(repositoryRoot, "var", options.basePort === undefined ? "demo" : `demo-${options.basePort}`);
  const mesh = await startLocalMesh({
    folder,
    contents: CONTENTS,
    basePort: options.basePort,
    abort: interrupt,
    onProgress: (line) => say(`[${seconds().toFixed(1).padStart(5)} s] ${line}`),
  });
  try {
    say("");
    const checks = await untilInterrupted(playStories(mesh, interrupt, say), interrupt);
    if (checks === undefined) return INTERRUPTED;
    return await finish(options, mesh, checks, seconds(), interrupt);
  } finally {
    say("stopping ...");
    await mesh.stop();
  }
}

async function finish(
  options: DemoOptions,
  mesh: LocalMesh,
  checks: readonly Check[],
  seconds: number,
  interrupt: AbortSignal,
): Promise<number> {
  const report = toJsonReport(checks);
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
  say(`\n${formatSummary(checks, seconds)}`);
  if (options.exit) return report.ok ? 0 : FAILURE;
  say(`\n${commandsToTry(mesh)}\n\nThe mesh stays up until Ctrl-C.`);
  await untilInterrupted(new Promise<never>(() => {}), interrupt);
  return report.ok ? 0 : FAILURE;
}

/** The result, or undefined as soon as the signal comes. */
function untilInterrupted<Result>(work: Promise<Result>, interrupt: AbortSignal): Promise<Result | undefined> {
  return new Promise((resolve, reject) => {
    if (interrupt.aborted) resolve(undefined);
    interrupt.addEventListener("abort", () => resolve(undefined), { once: true });
    work.then(resolve, reject);
  });
}

/** First signal: an orderly end. A later one: at once, and the watchdog kills what is left. */
function listenForSignals(): AbortSignal {
  const controller = new AbortController();
  let firstMs: number | undefined;
  const stop = (): void => {
    if (firstMs === undefined) {
      firstMs = performance.now();
      controller.abort(new RunError("interrupted"));
    } else if (performance.now() - firstMs > SAME_SIGNAL_MS) {
      process.exit(INTERRUPTED);
    }
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, stop);
  return controller.signal;
}

function readOptions(): DemoOptions {
  try {
    return readDemoOptions(process.argv.slice(2));
  } catch (error) {
    // Commander has printed its text already.
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : USAGE);
    throw error;
  }
}

// grpc-js writes lines of its own to stderr; what matters of them reaches us as errors of calls.
setLogVerbosity(logVerbosity.NONE);
const options = readOptions();
const interrupt = listenForSignals();
try {
  process.exitCode = await runDemo(options, interrupt);
} catch (error) {
  process.stderr.write(
    `demo: ${error instanceof RunError ? error.message : ((error as Error).stack ?? String(error))}\n`,
  );
  process.exitCode = interrupt.aborted ? INTERRUPTED : FAILURE;
}
// Whatever a client library still holds open must not keep a finished demo alive.
process.exit();
