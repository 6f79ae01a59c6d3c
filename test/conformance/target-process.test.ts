import { afterEach, describe, expect, it } from "vitest";
import { DeltaStream } from "./discovery-stream.js";
import { TargetProcess } from "./target-process.js";

const CDS = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const FREE_PORTS = ["--xds-port", "0", "--adapter-port", "0"] as const;
const portOf = (address: string): string => address.slice(address.lastIndexOf(":") + 1);

const processes: TargetProcess[] = [];
afterEach(async () => {
  for (const target of processes.splice(0)) await target.kill();
});

function start(...flags: string[]): TargetProcess {
  const target = new TargetProcess(...flags);
  processes.push(target);
  return target;
}

describe("the command line of the conformance target", () => {
  it("--help tells the flags and ends well", async () => {
    const { status, out, err } = await start("--help").ended;
    expect([status, err]).toEqual([0, ""]);
    for (const flag of ["--xds-port", "--adapter-port", "--verbose"]) expect(out).toContain(flag);
  });

  it.each([
    [["--nope"], "--nope"],
    [["--xds-port", "abc"], "--xds-port"],
    [["--adapter-port", "70000"], "--adapter-port"],
    [["--xds-port", "-1"], "--xds-port"],
    [["--xds-port", "5000", "--adapter-port", "5000"], "must be different"],
    [["more"], "too many arguments"],
  ])("%j is a wrong one: status 2 and one line", async (flags, why) => {
    const { status, out, err } = await start(...flags).ended;
    expect([status, out]).toEqual([2, ""]);
    expect(err).toContain(why);
    expect(err.trimEnd()).not.toContain("\n");
  });

  it("a port in use is told in one line, with the flag that gives another", async () => {
    const { xds, adapter } = await start(...FREE_PORTS).addresses();
    const sameXds = await start("--xds-port", portOf(xds), "--adapter-port", "0").ended;
    const sameAdapter = await start("--xds-port", "0", "--adapter-port", portOf(adapter)).ended;
    const text = (port: string, flag: string): string =>
      `conformance target: port ${port} is in use; give another one with ${flag}\n`;
    expect(sameXds).toEqual({ status: 1, out: "", err: text(portOf(xds), "--xds-port") });
    expect(sameAdapter).toEqual({ status: 1, out: "", err: text(portOf(adapter), "--adapter-port") });
  });

  it("--verbose logs each response", async () => {
    const target = start(...FREE_PORTS, "--verbose");
    const { xds } = await target.addresses();
    const stream = new DeltaStream(xds);
    stream.subscribe("client", CDS, []);
    await stream.response(CDS, 0);
    stream.close();
    target.signal("SIGTERM");
    expect((await target.ended).err).toContain('"msg":"xDS response"');
  });
});

describe("the end of the conformance target", () => {
  it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)("%s ends streams in order and frees the ports", async (signal) => {
    const first = start(...FREE_PORTS);
    const { xds, adapter } = await first.addresses();
    const stream = new DeltaStream(xds);
    stream.subscribe("client", CDS, []);
    await stream.response(CDS, 0);
    first.signal(signal);
    const { status, err } = await first.ended;
    expect([status, err, await stream.ended]).toEqual([0, "", "end"]);
    stream.close();
    const second = start("--xds-port", portOf(xds), "--adapter-port", portOf(adapter));
    expect(await second.addresses()).toEqual({ xds, adapter });
  });
});
