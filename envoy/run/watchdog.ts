import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { repositoryRoot } from "./paths.js";
import { RunError } from "./run-error.js";
import { RUN_MARK } from "./run-mark.js";

/** Sees to it that no process of a run outlives the process that started it. */
export interface Watchdog {
  /** Names the run. */
  readonly mark: string;
  /** Every child must be started with this environment; it is what the watchdog knows its processes by. */
  readonly environment: Readonly<Record<string, string>>;
  /** Kills what is left of the run and waits until it is gone. */
  close(): Promise<void>;
}

/** The compiled script, also when this file runs from source in a test. */
const REAPER = join(repositoryRoot, "envoy", "dist", "run", "reaper.js");

/**
 * Starts the watchdog of one run.
 * @throws RunError when the project is not compiled
 */
export function startWatchdog(): Watchdog {
  if (!existsSync(REAPER)) throw new RunError(`${REAPER} is missing; run \`npm run setup\``);
  const mark = randomUUID();
  const reaper = spawn(process.execPath, ["--max-old-space-size=32", REAPER, mark], {
    stdio: ["pipe", "ignore", "ignore"],
    // A session of its own: Ctrl-C in the terminal and the end of the terminal must not reach it.
    detached: true,
  });
  const gone = new Promise<void>((resolve) => {
    reaper.once("exit", () => resolve());
    reaper.once("error", () => resolve());
  });
  // Neither the process nor its pipe shall keep this one alive: its end is what the pipe is there to tell.
  reaper.unref();
  unrefPipe(reaper);
  return {
    mark,
    environment: { [RUN_MARK]: mark },
    close: async () => {
      reaper.ref();
      reaper.stdin?.end();
      await gone;
    },
  };
}

function unrefPipe(child: ChildProcess): void {
  const { stdin } = child;
  stdin?.on("error", () => {});
  // The pipe of a child is a socket.
  if (stdin !== null && "unref" in stdin && typeof stdin.unref === "function") stdin.unref();
}
