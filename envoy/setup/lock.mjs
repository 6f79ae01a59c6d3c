import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SetupFailure } from "./failure.mjs";
import { workDir } from "./paths.mjs";

const POLL_MS = 200;
const WAIT_MAX_MS = 20 * 60_000;

/** When a process was started, in clock ticks since boot: tells it from a later one with the same pid. */
function startTicks(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

function readHolder(lockPath) {
  try {
    const content = readFileSync(lockPath, "utf8");
    const [pid, ticks] = content.split(" ");
    return { content, pid, alive: ticks !== "" && startTicks(pid) === ticks };
  } catch {
    return undefined;
  }
}

/** One atomic step: a complete file appears under the name, or another one is there already. */
function tryTake(lockPath) {
  const own = `${lockPath}.${process.pid}`;
  writeFileSync(own, `${process.pid} ${startTicks(process.pid) ?? ""}`);
  try {
    linkSync(own, lockPath);
    return true;
  } catch {
    return false;
  } finally {
    rmSync(own, { force: true });
  }
}

/** Puts a dead holder's lock aside; if it was a living one's after all (two of us at once), puts it back. */
function breakLock(lockPath, content) {
  const aside = `${lockPath}.stale.${process.pid}`;
  try {
    renameSync(lockPath, aside);
    if (readFileSync(aside, "utf8") !== content) linkSync(aside, lockPath);
  } catch {
    // Somebody else was quicker; the next try sees how it stands.
  }
  rmSync(aside, { force: true });
}

/**
 * Takes the lock of the working tree, waiting for another set-up to end.
 * @param {(pid: string) => void} onWait called once when it has to wait
 * @param {string} [dir] where the lock lies
 * @returns {Promise<() => void>} gives the lock back
 */
export async function takeLock(onWait, dir = workDir) {
  mkdirSync(dir, { recursive: true });
  const lockPath = join(dir, "lock");
  const deadline = Date.now() + WAIT_MAX_MS;
  let told = false;
  while (!tryTake(lockPath)) {
    const holder = readHolder(lockPath);
    if (holder === undefined) continue;
    if (!holder.alive) {
      breakLock(lockPath, holder.content);
      continue;
    }
    if (!told) onWait(holder.pid);
    told = true;
    if (Date.now() > deadline) {
      throw new SetupFailure(
        `another set-up (process ${holder.pid}) holds .setup/lock for more than ${WAIT_MAX_MS / 60_000} minutes`,
        `look at process ${holder.pid}; end it if it hangs, then run this again`,
      );
    }
    await sleep(POLL_MS);
  }
  return () => rmSync(lockPath, { force: true });
}
