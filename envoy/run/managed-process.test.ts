import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManagedProcess } from "./managed-process.js";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "servemesh-process-"));
});
const started: ManagedProcess[] = [];
afterEach(async () => {
  for (const process of started.splice(0)) await process.kill();
  rmSync(folder, { recursive: true, force: true });
});

function node(code: string): ManagedProcess {
  return make([process.execPath, "-e", code]);
}

function make(command: [string, ...string[]]): ManagedProcess {
  const managed = new ManagedProcess({
    name: "thing",
    command,
    environment: { COLOUR: "green" },
    logFile: join(folder, "logs", "thing.log"),
  });
  started.push(managed);
  return managed;
}

const never = (): Promise<boolean> => Promise.resolve(false);

describe("ManagedProcess", () => {
  it("runs with the environment and is ready when the probe says so", async () => {
    const managed = node("console.log(process.env.COLOUR); setInterval(() => {}, 1000)");
    managed.start();
    await managed.waitReady(() => Promise.resolve(managed.logTail().includes("green")), 20_000);
    expect(managed.running).toBe(true);
    expect(managed.pid).toBeGreaterThan(0);
  });

  it("says how it ended and shows the end of the log when it ends before it is ready", async () => {
    const managed = node("console.error('no such model'); process.exit(3)");
    managed.start();
    await expect(managed.waitReady(never, 20_000)).rejects.toThrow(
      /^thing ended with exit code 3\n(.*\n)*no such model$/,
    );
    expect(managed.pid).toBeUndefined();
  });

  it("says that a command cannot be started", async () => {
    const managed = make([join(folder, "nosuch")]);
    managed.start();
    await expect(managed.waitReady(never, 20_000)).rejects.toThrow(/thing ended before it began/);
    await managed.stop(1_000);
  });

  it("gives up when it takes too long, and when the start is given up", async () => {
    const managed = node("setInterval(() => {}, 1000)");
    managed.start();
    await expect(managed.waitReady(never, 50)).rejects.toThrow(/thing was not ready after 0.05 s/);
    const abort = AbortSignal.abort(new Error("given up"));
    await expect(managed.waitReady(never, 20_000, abort)).rejects.toThrow("given up");
  });

  it("kills what does not end when asked to, and can be started again", async () => {
    const managed = node("process.on('SIGTERM', () => {}); console.log('deaf'); setInterval(() => {}, 1000)");
    managed.start();
    await managed.waitReady(() => Promise.resolve(managed.logTail().includes("deaf")), 20_000);
    const first = managed.pid;
    await managed.stop(100);
    expect(managed.running).toBe(false);
    managed.start();
    expect(managed.running).toBe(true);
    expect(managed.pid).not.toBe(first);
    expect(() => managed.start()).toThrow("thing runs already");
  });
});
