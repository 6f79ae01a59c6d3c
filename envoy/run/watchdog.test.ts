import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManagedProcess } from "./managed-process.js";
import { repositoryRoot } from "./paths.js";
import { sharedMemoryPrefix } from "./run-mark.js";
import { startWatchdog } from "./watchdog.js";

/** Compiled, because it runs in a process of its own. */
const PARENT = join(repositoryRoot, "envoy", "dist", "run", "testing", "watched-parent.js");

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "servemesh-watchdog-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Whether a process still runs; one that has ended but was not collected by its parent does not. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

async function waitGone(pids: readonly number[]): Promise<readonly number[]> {
  for (let tries = 0; tries < 200 && pids.some(isAlive); tries += 1) await sleep(50);
  return pids.filter(isAlive);
}

function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    child.stdout?.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      if (text.includes("\n")) resolve(text.slice(0, text.indexOf("\n")));
    });
    child.once("exit", () => reject(new Error("the parent ended before it had started its children")));
  });
}

describe("startWatchdog", () => {
  it.each(["SIGKILL", "SIGTERM", "SIGINT"] as const)(
    "ends children and grandchildren when the parent ends by %s",
    async (signal) => {
      const parent = spawn(process.execPath, [PARENT, join(folder, "child.log")], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const pids = JSON.parse(await firstLine(parent)) as number[];
      expect(pids.map(isAlive)).toEqual([true, true]);
      parent.kill(signal);
      expect(await waitGone(pids)).toEqual([]);
    },
  );

  it("leaves the processes of other runs alone", async () => {
    const mine = startWatchdog();
    const other = startWatchdog();
    const child = new ManagedProcess({
      name: "child",
      command: ["sleep", "600"],
      environment: other.environment,
      logFile: join(folder, "child.log"),
    });
    child.start();
    await mine.close();
    expect(child.running).toBe(true);
    await other.close();
    expect(await waitGone([child.pid ?? 0])).toEqual([]);
  });

  it("removes the shared memory that killed processes left", async () => {
    const watchdog = startWatchdog();
    const left = join("/dev/shm", `${sharedMemoryPrefix(watchdog.mark)}-test`);
    mkdirSync("/dev/shm", { recursive: true });
    writeFileSync(left, "left behind");
    await watchdog.close();
    expect(() => readFileSync(left)).toThrow(/ENOENT/);
  });
});
