import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { credentials } from "@grpc/grpc-js";
import {
  LoadReportingServiceClient,
  LoadStatsRequest,
} from "@servemesh/proto/gen/envoy/envoy/service/load_stats/v3/lrs.js";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { ControlPlane } from "./control-plane.js";
import { ControlPlaneFixture, registerRanker } from "./control-plane-fixture.js";
import { ROUTE_TYPE } from "./snapshot/resource-types.js";

const PATIENCE = { timeout: 8_000, interval: 20 };
const DASHBOARD = fileURLToPath(new URL("../envoy/deploy/grafana/xds.json", import.meta.url));
const README = fileURLToPath(new URL("README.md", import.meta.url));

let fixture: ControlPlaneFixture;
let plane: ControlPlane;

/** A mesh in which something of everything has happened. */
beforeAll(async () => {
  fixture = new ControlPlaneFixture();
  plane = await fixture.start();
  const admin = fixture.admin(plane);
  await registerRanker(admin);
  const envoy = fixture.envoy(plane, ["routes/ranker", "gate"]);
  fixture.envoy(plane, ["routes/ranker"], {
    nodeId: "envoy-2",
    refusal: ({ typeUrl }) =>
      typeUrl === ROUTE_TYPE ? "Weights: must be greater than 0, validation failed" : undefined,
  });
  await vi.waitFor(() => expect(envoy.textOf(ROUTE_TYPE, "routes/ranker")).not.toBe(""), PATIENCE);
  await vi.waitFor(() => expect(plane.nodes()).toHaveLength(2), PATIENCE);
  const { alias } = await admin.getAlias({ model: "ranker" });
  await admin.setAlias({ alias: { ...alias, alias: "canary" }, expectedRevision: 0n });
  await vi.waitFor(() => expect(envoy.textOf(ROUTE_TYPE, "routes/ranker")).toContain("ranker/canary"), PATIENCE);
  fixture.batcher(plane, "ranker", 41n, 19_999);
  reportLoad("model/ranker/41", "made-up-by-envoy");
  await vi.waitFor(
    async () => expect(await lineOf('servemesh_load_requests_total{cluster="other"')).toBeDefined(),
    PATIENCE,
  );
});

afterAll(() => fixture.cleanUp());

function reportLoad(...clusters: string[]): void {
  const client = new LoadReportingServiceClient(plane.adsAddress, credentials.createInsecure(), {
    "grpc.use_local_subchannel_pool": 1,
  });
  const call = client.streamLoadStats();
  call.on("error", () => undefined);
  call.on("data", () => undefined);
  fixture.onCleanUp(() => {
    call.cancel();
    client.close();
  });
  call.write(LoadStatsRequest.fromPartial({ node: { id: "envoy-1" } }));
  const upstreamLocalityStats = [{ totalIssuedRequests: 9, totalSuccessfulRequests: 6, totalErrorRequests: 1 }];
  const clusterStats = clusters.map((clusterName) => ({ clusterName, upstreamLocalityStats }));
  call.write(LoadStatsRequest.fromPartial({ clusterStats }));
}

async function scrape(): Promise<string> {
  return (await fetch(`http://127.0.0.1:${plane.healthPort}/metrics`)).text();
}

async function lineOf(prefix: string): Promise<string | undefined> {
  return (await scrape()).split("\n").find((line) => line.startsWith(prefix));
}

/** Names of all samples, as a query may use them. */
async function sampleNames(): Promise<Set<string>> {
  const lines = (await scrape()).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Set(lines.map((line) => /^\w+/.exec(line)?.[0] ?? ""));
}

async function familyNames(): Promise<Set<string>> {
  return new Set([...(await scrape()).matchAll(/^# TYPE (\w+) /gm)].map((match) => match[1] ?? ""));
}

it("measures pushes from the change to the wire and to the ACK, by type", async () => {
  for (const name of ["servemesh_xds_wire_seconds", "servemesh_xds_push_seconds"]) {
    const line = await lineOf(`${name}_count{type="RouteConfiguration"}`);
    expect(Number(line?.split(" ")[1])).toBeGreaterThanOrEqual(1);
  }
});

it("counts responses, and refusals by their kind", async () => {
  expect(await lineOf('servemesh_xds_sent_responses_total{type="Cluster"}')).toMatch(/ [1-9]\d*$/);
  const refused = await lineOf('servemesh_xds_nacks_total{type="RouteConfiguration",reason="validation"}');
  expect(refused).toMatch(/ [1-9]\d*$/);
});

it("shows what gateways report, by clusters of the present state alone", async () => {
  const { clusters } = await vi.waitFor(async () => {
    const sums = plane.loads();
    expect([...sums.keys()].sort()).toEqual(["made-up-by-envoy", "model/ranker/41"]);
    return { clusters: sums };
  }, PATIENCE);
  const figures = { issued: 9, success: 6, error: 1, inProgress: 0, unfinished: 2 };
  expect(clusters.get("model/ranker/41")).toEqual(figures);
  expect(await lineOf('servemesh_load_requests_total{cluster="model/ranker/41",outcome="issued"}')).toMatch(/ 9$/);
  expect(await lineOf('servemesh_load_unfinished{cluster="other"}')).toMatch(/ 2$/);
  expect(await lineOf("servemesh_load_streams")).toBe("servemesh_load_streams 1");
});

it("has every metric that the dashboard asks for", async () => {
  const dashboard = JSON.parse(readFileSync(DASHBOARD, "utf8")) as {
    panels: { title: string; targets: { expr: string }[] }[];
  };
  const exprs = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
  const asked = exprs.flatMap((expr) => expr.match(/\b(servemesh|nodejs|process)_\w+/g) ?? []);
  expect(asked.length).toBeGreaterThanOrEqual(exprs.length);
  // Counters of what has not happened here have no sample yet, so their families count too.
  const known = new Set([...(await sampleNames()), ...(await familyNames())]);
  expect(asked.filter((name) => !known.has(name))).toEqual([]);
});

it("has every metric that the README names, and the README names every one of ours", async () => {
  const section = /## Metrics\n([\s\S]*?)\n## /.exec(readFileSync(README, "utf8"))?.[1] ?? "";
  const rows = section.split("\n").filter((line) => line.startsWith("| `"));
  const texts = rows.flatMap((row) =>
    [...(row.split(" | ")[0] ?? "").matchAll(/`([^`]+)`/g)].map((match) => match[1] ?? ""),
  );
  const named = texts.flatMap((text) => {
    const alternatives = /_\{([^}]*)\}/.exec(text);
    const bare = text.replace(/(?<!_)\{[^}]*\}$/, "");
    return (alternatives?.[1] ?? "").split(",").map((word) => `servemesh_${bare.replace(/\{[^}]*\}/, word)}`);
  });
  const ours = [...(await familyNames())].filter((name) => name.startsWith("servemesh_"));
  expect(named.sort()).toEqual(ours.sort());
});
