import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { ControlPlane } from "../control-plane.js";
import { ControlPlaneFixture, registerRanker, SILENCE } from "../control-plane-fixture.js";
import { CLUSTER_TYPE, ROUTE_TYPE } from "../snapshot/resource-types.js";
import { createMeshctl } from "./meshctl.js";

const PATIENCE = { timeout: 8_000, interval: 20 };
/** Asked for as route tables and as extensions alike; as a route table `gate` is an empty one. */
const NAMES = ["routes/ranker", "gate"];

let fixture: ControlPlaneFixture;
let plane: ControlPlane;

/** Three pretended Envoys: one takes everything, one refuses its routes, one never answers about clusters. */
beforeAll(async () => {
  fixture = new ControlPlaneFixture();
  plane = await fixture.start();
  expect(await meshctl("xds", "nodes")).toBe("no Envoy is connected\n");
  await registerRanker(fixture.admin(plane));
  fixture.envoy(plane, NAMES, { nodeId: "gateway-1" });
  fixture.envoy(plane, NAMES, {
    nodeId: "gateway-2",
    refusal: ({ typeUrl }) => (typeUrl === ROUTE_TYPE ? "bad\u001b[2J weight" : undefined),
  });
  fixture.envoy(plane, NAMES, {
    nodeId: "gateway-3",
    refusal: ({ typeUrl }) => (typeUrl === CLUSTER_TYPE ? SILENCE : undefined),
  });
  await vi.waitFor(async () => {
    expect(await meshctl("xds", "diff", "gateway-1")).toContain("has acknowledged everything");
    expect(await meshctl("xds", "nacks")).toContain("gateway-2");
    expect(await meshctl("xds", "diff", "gateway-2")).toMatch(/routes\/ranker +refused/);
    expect(await meshctl("xds", "diff", "gateway-3")).toContain("model/ranker/41");
  }, PATIENCE);
});

afterAll(() => fixture.cleanUp());

/** Runs one command in this process and returns what it printed. */
async function meshctl(...args: string[]): Promise<string> {
  let out = "";
  const program = createMeshctl((text) => {
    out += text;
  });
  const flags = ["--address", plane.adminAddress, "--token-file", fixture.options.tokenFile];
  await program.parseAsync([...args, ...flags], { from: "user" });
  return out;
}

async function json(...args: string[]): Promise<Record<string, unknown>> {
  return JSON.parse(await meshctl(...args, "--json")) as Record<string, unknown>;
}

describe("meshctl xds nodes", () => {
  it("has a line per node and type", async () => {
    const out = await meshctl("xds", "nodes");
    expect(out.split("\n")[0]).toMatch(
      /^ENVOY +CONNECTED SINCE +TYPE +STATE +VERSION +SENT +ACKED +HAS +MISSING +REFUSED +NACKS$/,
    );
    expect(out).toMatch(/^gateway-1 +20\d\d-\S+Z +cds +up to date +([0-9a-f]{12}) +\1 +\1 +3 +0 +0 +0$/m);
    expect(out).toMatch(/^ +rds +refuses +[0-9a-f]{12} .* 0 +0 +1$/m);
    expect(out).toMatch(/^gateway-3 +\S+ +cds +under way +[0-9a-f]{12} .* 0 +3 +0 +0$/m);
  });

  it("is proto3 JSON with --json", async () => {
    const { nodes } = await json("xds", "nodes");
    expect(nodes).toMatchObject([
      { nodeId: "gateway-1", connectedSince: expect.stringMatching(/^20/) },
      {
        nodeId: "gateway-2",
        nackCount: "3",
        nacks: [{ names: ["routes/ranker"] }, { names: ["gate"] }, { names: ["gate", "routes/ranker"] }],
      },
      { nodeId: "gateway-3" },
    ]);
  });
});

describe("meshctl xds dump", () => {
  it("lists what a node has, by type and name", async () => {
    const out = await meshctl("xds", "dump", "gateway-1");
    expect(out).toMatch(/^gateway-1, connected since 20\S+Z, refused responses: 0\n\nTYPE +RESOURCE +STATE /);
    expect(out).toMatch(/^rds +routes\/ranker +acked +([0-9a-f]{12}) +\1 +-$/m);
    expect(out).toMatch(/^cds +model\/ranker\/41 +acked/m);
    const clusters = await meshctl("xds", "dump", "gateway-1", "--type", "cds", "--name", "model/");
    expect(clusters).toMatch(/model\/ranker\/41/);
    expect(clusters).not.toMatch(/_server|routes\/ranker/);
    expect(await meshctl("xds", "dump", "gateway-1", "--type", "vhds")).toContain("no resources match\n");
  });

  it("shows contents with --full, of a refusal what was refused, and no binary of the gate", async () => {
    const full = await meshctl("xds", "dump", "gateway-2", "--full");
    expect(full).toMatch(/routes\/ranker +refused .*\n\{\n {2}"@type": "[^"]*RouteConfiguration",\n/);
    expect(full).toMatch(/"inlineBytes": "sha256:[0-9a-f]{16} \(\d+ bytes\)"/);
    expect(full).toMatch(
      /"configuration": \{\s+"@type": "[^"]*BytesValue",\s+"value": "sha256:[0-9a-f]{16} \(\d+ bytes\)"/,
    );
    expect(Math.max(...full.split("\n").map((line) => line.length))).toBeLessThan(1_000);
    const { resources } = await json("xds", "dump", "gateway-1", "--full", "--type", "rds");
    expect(resources).toMatchObject([
      { name: "gate", state: "XDS_RESOURCE_STATE_ABSENT" },
      { name: "routes/ranker", content: { "@type": ROUTE_TYPE, name: "routes/ranker" } },
    ]);
  });

  it("says which node is missing, and which types there are", async () => {
    await expect(meshctl("xds", "dump", "gateway-9")).rejects.toThrow("no Envoy named gateway-9 is connected");
    const quiet = createMeshctl(() => undefined);
    for (const command of [quiet, ...quiet.commands.flatMap((one) => [one, ...one.commands])]) {
      command.configureOutput({ writeErr: () => undefined });
    }
    await expect(
      quiet.parseAsync(["xds", "dump", "gateway-1", "--type", "clusters"], { from: "user" }),
    ).rejects.toThrow(/Allowed choices are cds, eds, lds, srds, rds, ecds/);
  });
});

describe("meshctl xds diff and nacks", () => {
  it("shows what is under way and what is refused, with Envoy's words and the time", async () => {
    expect(await meshctl("xds", "diff", "gateway-3")).toMatch(
      /^gateway-3 has not acknowledged:\nTYPE .*\n(.*\n)*cds +model\/ranker\/41 +under way +([0-9a-f]{12}) +- +\2\n/,
    );
    expect(await meshctl("xds", "diff", "gateway-2")).toMatch(
      /rds +routes\/ranker +refused +[0-9a-f]{12} +- +- +bad \[2J weight \(20\S+Z\)\n/,
    );
    expect(await json("xds", "diff", "gateway-1")).toMatchObject({ node: { nodeId: "gateway-1" }, resources: [] });
  });

  it("lists refusals newest first, without letting Envoy's words command the terminal", async () => {
    const out = await meshctl("xds", "nacks");
    // Of two that stood in a refused response each was offered once more on its own.
    expect(out.replace(/20\S+Z/g, "T")).toBe(
      [
        "TIME                      ENVOY      TYPE  RESOURCES           ENVOY SAYS\n",
        "T  gateway-2  rds   routes/ranker       bad [2J weight\n",
        "T  gateway-2  rds   gate                bad [2J weight\n",
        "T  gateway-2  rds   gate,routes/ranker  bad [2J weight\n",
      ].join(""),
    );
    const { nodes } = await json("xds", "nacks");
    expect(nodes).toMatchObject([
      { nodeId: "gateway-1", nackCount: "0", nacks: [] },
      { nodeId: "gateway-2", nackCount: "3", nacks: [{ words: "bad\u001b[2J weight" }, {}, {}] },
      { nodeId: "gateway-3" },
    ]);
  });
});
