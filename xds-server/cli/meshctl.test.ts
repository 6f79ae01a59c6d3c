import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AdminClient } from "../admin/admin-client.js";
import type { ControlPlane } from "../control-plane.js";
import { ControlPlaneFixture, registerRanker } from "../control-plane-fixture.js";

const MESHCTL = fileURLToPath(new URL("../bin/meshctl.mjs", import.meta.url));

let fixture: ControlPlaneFixture;
let plane: ControlPlane;
let admin: AdminClient;

beforeAll(async () => {
  fixture = new ControlPlaneFixture();
  plane = await fixture.start();
  admin = fixture.admin(plane);
  await registerRanker(admin);
});

afterAll(() => fixture.cleanUp());

interface Ended {
  readonly status: number;
  readonly out: string;
  readonly err: string;
}

/** Runs meshctl as a process of its own; the environment names the control plane unless told otherwise. */
async function meshctl(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
  const child = spawn(process.execPath, [MESHCTL, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    cwd: fixture.folder,
    env: {
      PATH: process.env.PATH ?? "",
      SERVEMESH_ADMIN: plane.adminAddress,
      SERVEMESH_TOKEN_FILE: fixture.options.tokenFile,
      ...env,
    },
  });
  let out = "";
  let err = "";
  child.stdout.on("data", (text) => {
    out += text;
  });
  child.stderr.on("data", (text) => {
    err += text;
  });
  const [status] = await once(child, "close");
  return { status: status as number, out, err };
}

async function json(...args: string[]): Promise<unknown> {
  const { status, out, err } = await meshctl([...args, "--json"]);
  expect([status, err]).toEqual([0, ""]);
  return JSON.parse(out);
}

describe("meshctl alias", () => {
  it("sets a split and keeps what no flag names", async () => {
    const canary = ["alias", "set", "ranker@canary"];
    expect((await meshctl([...canary, "41=90,42=10", "--shadow", "42", "--deadline-ms", "80"])).status).toBe(0);
    const set = await meshctl([...canary, "41=100,42=0"]);
    expect(set).toMatchObject({ status: 0, err: "" });
    expect(set.out).toMatch(/^ranker@canary, revision \d+\n/);
    expect(set.out).toMatch(/ALIAS +SPLIT +FALLBACK +SHADOW +DEADLINE\ncanary +41=100 42=0 +- +42 +80 ms\n/);
    expect(await json(...canary, "41=1", "--no-shadow", "--deadline-ms", "0", "--fallback", "ranker:41")).toMatchObject(
      {
        alias: { model: "ranker", alias: "canary", split: [{ version: "41", weight: 1 }], fallback: ["ranker:41"] },
      },
    );
    const { alias } = await admin.getAlias({ model: "ranker", alias: "canary" });
    expect([alias?.shadow, alias?.deadlineMs]).toEqual([undefined, 0]);
    await meshctl([...canary, "41=1", "--no-fallback"]);
    expect((await admin.getAlias({ model: "ranker", alias: "canary" })).alias?.fallback).toEqual([]);
  });

  it("shows the default alias of a bare name", async () => {
    expect((await meshctl(["alias", "show", "ranker"])).out).toMatch(
      /^ranker@prod, revision \d+\n.*\nprod +41=95 42=5/,
    );
    expect(await json("alias", "show", "ranker@prod")).toMatchObject({
      alias: { alias: "prod" },
      revision: expect.any(String),
    });
  });

  it("fails when the alias has moved on, and writes nothing", async () => {
    const { revision } = await admin.getAlias({ model: "ranker" });
    const set = await meshctl(["alias", "set", "ranker", "41=1", "--expected-revision", `${revision - 1n}`]);
    expect(set).toMatchObject({ status: 1, out: "" });
    expect(set.err).toBe(
      `meshctl: expected_revision is ${revision - 1n}, but ranker@prod is at revision ${revision}; read it again and decide anew\n`,
    );
    expect((await admin.getAlias({ model: "ranker" })).revision).toBe(revision);
    expect((await meshctl(["alias", "set", "ranker", "41=95,42=5", "--expected-revision", `${revision}`])).status).toBe(
      0,
    );
  });

  it("passes on the control plane's refusal in one line", async () => {
    const { status, err } = await meshctl(["alias", "set", "ranker", "41=1,42=1"]);
    expect(status).toBe(1);
    expect(err).toBe(
      "meshctl: ranker@prod: split: ranker:42 is in stage staging and may get at most 25 % of the traffic, not 50 %; lower its weight or promote it\n",
    );
    const unknown = await meshctl(["alias", "set", "echo", "1=1"]);
    expect([unknown.status, unknown.err]).toEqual([
      1,
      "meshctl: model: echo is not registered; put the model first, or check the name\n",
    ]);
  });
});

describe("meshctl tenant, model and status", () => {
  it("adds a tenant and shows its key once", async () => {
    const added = await meshctl(["tenant", "add", "beta", "--models", "ranker,echo", "--priority", "batch"]);
    expect(added.status).toBe(0);
    const key = /^sm_\S+$/m.exec(added.out)?.[0];
    expect(key).toBeDefined();
    const list = await meshctl(["tenant", "list"]);
    expect(list.out).toMatch(/beta +ranker,echo +batch +[0-9a-f]{10}\n/);
    expect(list.out).not.toContain(key);
    expect(await json("tenant", "add", "gamma", "--models", "*")).toMatchObject({
      tenant: { name: "gamma", models: ["*"], plan: { priority: "interactive" } },
      apiKey: expect.stringMatching(/^sm_/),
    });
    const again = await meshctl(["tenant", "add", "beta"]);
    expect([again.status, again.err]).toEqual([
      1,
      "meshctl: tenant.name: beta exists already; choose another name, its key cannot be shown again\n",
    ]);
  });

  it("lists and shows models", async () => {
    expect((await meshctl(["model", "list"])).out).toMatch(/MODEL +OWNER +VERSIONS +READY +ALIASES\nranker +2 +0 +/);
    const { out } = await meshctl(["model", "show", "ranker"]);
    expect(out).toMatch(/41 +production +0 of 0/);
    expect(out).toMatch(/42 +staging +0 of 0/);
    expect(await json("model", "show", "ranker")).toMatchObject({ model: { name: "ranker" }, versions: [{}, {}] });
  });

  it("shows the status with its findings", async () => {
    const { out, status } = await meshctl(["status"]);
    expect(status).toBe(0);
    expect(out).toContain(`control plane 0.1.0 at ${plane.adminAddress}, registry revision `);
    expect(out).toMatch(/warning +versions +signatures are not checked yet\n/);
    expect(await json("status")).toMatchObject({ softwareVersion: "0.1.0", findings: expect.any(Array) });
  });
});

describe("meshctl's command line", () => {
  it.each([
    [["alias", "set", "ranker", "41:95"], '"41:95" is not version=weight; write for example 41=95,42=5'],
    [["alias", "set", "ranker", "041=1"], '"041=1" is not version=weight'],
    [["alias", "set", "ranker", "41=1,"], "has an empty entry"],
    [["alias", "set", "ranker", "41=4294967296"], "must be a whole number from 0 to 4294967295"],
    [["alias", "set", "ranker:41", "41=1"], "names a version, which never changes; write an alias such as ranker@prod"],
    [["alias", "set", "Ranker", "41=1"], 'model reference \\"Ranker\\" is not valid'],
    [["alias", "set", "ranker"], "missing required argument 'split'"],
    [["alias", "set", "ranker", "41=1", "--expected-revision", "x"], '"x" is no revision'],
    [["alias", "set", "ranker", "41=1", "--deadline-ms", "-5"], "must be a whole number"],
    [["model", "show", "ranker@prod"], "has a pin; write the model alone, ranker"],
    [["tenant", "add", "x", "--priority", "high"], "Allowed choices are interactive, batch"],
    [["status", "--jsno"], "unknown option '--jsno'"],
    [["status", "now"], "too many arguments"],
    [["statsu"], "unknown command 'statsu'"],
  ])("%j ends with status 2 and says what is wrong", async (args, problem) => {
    const { status, out, err } = await meshctl(args);
    expect([status, out]).toEqual([2, ""]);
    expect(err.replace(/^error: .*? is invalid[^.]*\. /, "").split("\n")[0]).toContain(problem.replaceAll("\\", ""));
  });

  it("helps with examples", async () => {
    const help = await meshctl(["--help"]);
    expect(help.status).toBe(0);
    expect(help.out).toContain("meshctl alias set ranker@prod 41=95,42=5 --fallback ranker-lite:1 --shadow 43");
    expect((await meshctl(["alias", "set", "--help"])).out).toContain("--expected-revision");
    expect((await meshctl([])).status).toBe(2);
  });

  it("says what to do when the token file is missing, open to others, or of another control plane", async () => {
    const missing = await meshctl(["status"], { SERVEMESH_TOKEN_FILE: "nowhere/token" });
    expect([missing.status, missing.err]).toEqual([
      1,
      "meshctl: token file nowhere/token cannot be read: ENOENT: no such file or directory, open 'nowhere/token'\n",
    ]);
    const path = join(fixture.folder, "other-token");
    writeFileSync(path, `sm_admin_${"x".repeat(43)}\n`);
    chmodSync(path, 0o644);
    expect((await meshctl(["status", "--token-file", path])).err).toContain("has mode 0644, so others can read it");
    chmodSync(path, 0o600);
    const wrong = await meshctl(["status", "--token-file", path]);
    expect([wrong.status, wrong.err]).toEqual([
      1,
      "meshctl: authorization: the token is not this control plane's; read it from its token file again\n",
    ]);
  });

  it("says what to do when no control plane answers, and never leaves the machine", async () => {
    const down = await meshctl(["status", "--address", "127.0.0.1:1"]);
    expect(down.status).toBe(1);
    expect(down.err).toMatch(
      /^meshctl: no control plane answers at 127\.0\.0\.1:1; start it, or name its --admin address .*\n$/,
    );
    const away = await meshctl(["status", "--address", "10.0.0.1:18001"]);
    expect([away.status, away.err]).toMatchObject([1, expect.stringContaining('"10.0.0.1" is not a loopback address')]);
  });
});
