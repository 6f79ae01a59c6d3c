import { readdirSync, readFileSync } from "node:fs";

/** USER_HZ, which Linux fixes at 100 for what /proc tells on every architecture that we run on. */
const TICKS_PER_SECOND = 100;

/**
 * CPU time in seconds that a process and its descendants have used so far, user and system.
 * Triton's python backend works in child processes, so the parent alone would tell half the truth.
 * @throws Error when the process is gone
 */
export function cpuSecondsOf(pid: number): number {
  const parents = new Map<number, number[]>();
  for (const entry of readdirSync("/proc")) {
    const child = Number(entry);
    if (!Number.isInteger(child)) continue;
    const stat = statFields(child);
    if (stat === undefined) continue;
    const parent = Number(stat[1]);
    parents.set(parent, [...(parents.get(parent) ?? []), child]);
  }
  const own = ownSeconds(pid);
  if (own === undefined) throw new Error(`process ${pid} is gone, its CPU time cannot be read`);
  let total = own;
  const waiting = [...(parents.get(pid) ?? [])];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    total += ownSeconds(next) ?? 0;
    waiting.push(...(parents.get(next) ?? []));
  }
  return total;
}

function ownSeconds(pid: number): number | undefined {
  const stat = statFields(pid);
  return stat && (Number(stat[11]) + Number(stat[12])) / TICKS_PER_SECOND;
}

/** Fields of /proc/PID/stat from the state on; the name before it may hold spaces and brackets. */
function statFields(pid: number): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}
