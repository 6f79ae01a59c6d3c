import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createAdminClient } from "./admin/admin-client.js";
import { readToken } from "./platform/token-file.js";

const MAIN = fileURLToPath(new URL("./dist/main.js", import.meta.url));

let folder: string;
let children: ChildProcess[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "servemesh-main-"));
  children = [];
});

afterEach(async () => {
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  rmSync(folder, { recursive: true, force: true });
});

interface Ended {
  readonly status: number | null;
  readonly out: string;
  readonly err: string;
}

interface Process {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** The line that tells the ports. */
  ports(): Promise<{ ads: string; admin: string; health: string }>;
}

function start(...flags: string[]): Process {
  const child = spawn(process.execPath, [MAIN, ...flags], { stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  let out = "";
  let err = "";
  child.stdout.on("data", (text) => {
    out += text;
  });
  child.stderr.on("data", (text) => {
    err += text;
  });
  const ended = once(child, "close").then(([status]) => ({ status: status as number | null, out, err }));
  const ports = async () => {
    await expect.poll(() => out.includes("\n") || child.exitCode !== null, { timeout: 20_000 }).toBe(true);
    if (!out.includes("\n")) throw new Error(`the control plane did not start: ${err}`);
    return JSON.parse(out);
  };
  return { child, ended, ports };
}

function flags(): string[] {
  const any = ["--ads", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--health", "127.0.0.1:0"];
  return ["--store", join(folder, "store"), "--token-file", join(folder, "token"), ...any];
}

describe("the control plane's process", () => {
  it("starts, answers, and ends in order on SIGTERM", async () => {
    const plane = start(...flags());
    const { admin: address, health } = await plane.ports();
    expect((await fetch(`http://${health}/ready`)).status).toBe(200);
    const token = readToken(join(folder, "token"));
    const admin = createAdminClient({ address, token });
    await admin.putModel({ model: { name: "ranker" } });
    admin.close();
    plane.child.kill("SIGTERM");
    const { status, err } = await plane.ended;
    expect([status, err.includes('"msg":"stopping"')]).toEqual([0, true]);
    expect(err).not.toContain(token);
  });

  it("keeps what was confirmed when it is killed, and the store is free for the next", async () => {
    const first = start(...flags());
    const { admin: address } = await first.ports();
    const token = readToken(join(folder, "token"));
    const admin = createAdminClient({ address, token });
    for (let count = 1; count <= 20; count += 1) {
      await admin.putModel({ model: { name: "ranker", owner: `team ${count}` }, expectedRevision: -1n });
    }
    first.child.kill("SIGKILL");
    await first.ended;
    admin.close();
    const second = start(...flags());
    const again = createAdminClient({ address: (await second.ports()).admin, token });
    expect((await again.getModel({ model: "ranker" })).model?.owner).toBe("team 20");
    again.close();
  });

  it("refuses a store in use and a taken port in one line, with status 1", async () => {
    const first = start(...flags());
    const { ads } = await first.ports();
    const second = await start(...flags()).ended;
    expect([second.status, second.out]).toEqual([1, ""]);
    expect(second.err).toContain(`servemesh-control-plane: store ${join(folder, "store")} cannot be opened: process`);
    const third = await start(...flags(), "--store", join(folder, "other"), "--ads", ads).ended;
    expect([third.status, third.out]).toEqual([1, ""]);
    expect(third.err).toContain(`servemesh-control-plane: --ads: ${ads} is taken by another process`);
  });

  it.each([
    [["--ads", "0.0.0.0:18000"], '"0.0.0.0" is not a loopback address'],
    [["--admin", "0.0.0.0:18001"], '"0.0.0.0" is not a loopback address'],
    [["--tls-certificate", "a", "--tls-key", "b"], "--tls-client-ca: give all three of them, or none"],
    [["--batcher-range", "10.1.0.0/16"], "--batcher-range needs --tls-certificate"],
    [["--admin", "nowhere"], '"nowhere" is not host:port'],
    [["--health", "127.0.0.1:65536"], '"127.0.0.1:65536" is not host:port'],
    [["--log-level", "loud"], "Allowed choices are fatal, error"],
    [["--stoer", "x"], "unknown option '--stoer'"],
    [["extra"], "too many arguments"],
  ])("refuses %j with status 2 and touches nothing", async (wrong, problem) => {
    const { status, err, out } = await start(...flags(), ...wrong).ended;
    expect([status, out]).toEqual([2, ""]);
    expect(err).toContain(problem);
    expect(existsSync(join(folder, "store"))).toBe(false);
  });

  it("names the flags that it needs, and helps", async () => {
    const bare = await start().ended;
    expect([bare.status, bare.err]).toEqual([2, "error: required option '--store <dir>' not specified\n"]);
    const help = await start("--help").ended;
    expect(help.status).toBe(0);
    for (const flag of [
      "--store",
      "--ads",
      "--admin",
      "--health",
      "--token-file",
      "--access-log",
      "--log-level",
      "--tls-certificate",
      "--tls-key",
      "--tls-client-ca",
      "--batcher-range",
    ]) {
      expect(help.out).toContain(flag);
    }
  });
});
