import { readFileSync } from "node:fs";

/** Tells one process from all others of this machine, also from a later one with the same process id. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Start time of the process in clock ticks since boot; empty where /proc is absent. */
  readonly startTicks: string;
  /** Changes with every boot; empty where /proc is absent. */
  readonly bootId: string;
}

export function ownIdentity(): ProcessIdentity {
  return { pid: process.pid, startTicks: startTicksOf(process.pid), bootId: bootId() };
}

/** False when that process has certainly ended. Where /proc is absent, a living process with the same id counts. */
export function isAlive(identity: ProcessIdentity): boolean {
  if (identity.bootId !== bootId()) return false;
  try {
    // Signal 0 only asks. EPERM means that it lives and belongs to someone else.
    process.kill(identity.pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  return startTicksOf(identity.pid) === identity.startTicks;
}

function bootId(): string {
  return readText("/proc/sys/kernel/random/boot_id").trim();
}

/** Field 22 of /proc/<pid>/stat, proc(5); counted from behind the name, which may hold anything. */
function startTicksOf(pid: number): string {
  const stat = readText(`/proc/${pid}/stat`);
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
