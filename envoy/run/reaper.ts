import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { RUN_MARK, sharedMemoryPrefix } from "./run-mark.js";

/**
 * A process of its own that outlives its parent for a moment: `reaper.js MARK`. Its standard input is a pipe from the
 * parent. When that closes, for whatever reason (also SIGKILL, which no handler sees), it kills every process whose
 * environment carries the run's mark. Children inherit the environment, so theirs are found as well, whatever process
 * group they are in, and there is no list that could be incomplete.
 */

/** Clean passes over /proc in a row before it believes that nobody is left: a fork just under way shows up in the next. */
const CLEAN_PASSES = 3;
const PASS_INTERVAL_MS = 30;
const GIVE_UP_AFTER_MS = 10_000;
const SHARED_MEMORY = "/dev/shm";

function markedProcesses(mark: string): number[] {
  const wanted = `${RUN_MARK}=${mark}`;
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => pid !== process.pid && environment(pid).includes(wanted));
}

function environment(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
  } catch {
    // Another user's, or gone: not ours.
    return [];
  }
}

async function reap(mark: string): Promise<void> {
  const stopAtMs = performance.now() + GIVE_UP_AFTER_MS;
  for (let clean = 0; clean < CLEAN_PASSES && performance.now() < stopAtMs; ) {
    const pids = markedProcesses(mark);
    clean = pids.length === 0 ? clean + 1 : 0;
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It ended by itself.
      }
    }
    await sleep(PASS_INTERVAL_MS);
  }
  removeSharedMemory(mark);
}

/** A killed process cannot remove its shared memory, which would stay in RAM until the next boot. */
function removeSharedMemory(mark: string): void {
  const prefix = sharedMemoryPrefix(mark);
  try {
    for (const name of readdirSync(SHARED_MEMORY)) {
      if (name.startsWith(prefix)) rmSync(join(SHARED_MEMORY, name), { force: true });
    }
  } catch {
    // No such folder here, so nothing was left in it.
  }
}

const mark = process.argv[2];
if (mark === undefined || mark === "") throw new Error("usage: reaper.js MARK, with a pipe as standard input");
// Whatever ends the parent must not end this one.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
process.stdin.on("error", () => {});
process.stdin.resume();
await new Promise((resolve) => process.stdin.once("close", resolve));
await reap(mark);
process.exit(0);
