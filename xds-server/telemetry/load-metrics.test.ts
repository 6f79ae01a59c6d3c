import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { observeLoadReports } from "./load-metrics.js";
import { LoadReports } from "./load-reports.js";

it("shows known clusters by name and all others as one, and nothing of those that are gone", async () => {
  const registry = new Registry();
  const loads = new LoadReports();
  const known = new Set(["ranker/41"]);
  observeLoadReports(registry, loads, (name) => known.has(name));
  const figures = { locality: "//", issued: 5, success: 2, error: 1, inProgress: 1 };
  const names = ["ranker/41", "control-plane", "made-up"];
  loads.record(
    "gateway-1",
    names.map((cluster) => ({ cluster, localities: [figures] })),
    0,
  );
  const lines = async (): Promise<string[]> =>
    (await registry.metrics())
      .split("\n")
      .filter((line) => /^servemesh_load_(requests|in_progress|unfinished)/.test(line));
  expect(await lines()).toEqual([
    'servemesh_load_requests_total{cluster="ranker/41",outcome="issued"} 5',
    'servemesh_load_requests_total{cluster="ranker/41",outcome="success"} 2',
    'servemesh_load_requests_total{cluster="ranker/41",outcome="error"} 1',
    'servemesh_load_requests_total{cluster="other",outcome="issued"} 10',
    'servemesh_load_requests_total{cluster="other",outcome="success"} 4',
    'servemesh_load_requests_total{cluster="other",outcome="error"} 2',
    'servemesh_load_in_progress{cluster="ranker/41"} 1',
    'servemesh_load_in_progress{cluster="other"} 2',
    'servemesh_load_unfinished{cluster="ranker/41"} 1',
    'servemesh_load_unfinished{cluster="other"} 2',
  ]);
  expect(await lines()).toHaveLength(10);
  loads.forget("gateway-1");
  expect(await lines()).toEqual([]);
});
