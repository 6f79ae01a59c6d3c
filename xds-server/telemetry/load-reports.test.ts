import { describe, expect, it } from "vitest";
import { type ClusterReport, LoadReports, type LocalityReport } from "./load-reports.js";

const at = (locality: string, issued: number, success: number, error: number, inProgress = 0): LocalityReport => ({
  locality,
  issued,
  success,
  error,
  inProgress,
});
const cluster = (name: string, ...localities: LocalityReport[]): ClusterReport => ({ cluster: name, localities });

describe("LoadReports", () => {
  it("keeps the last report and adds all up, per node, cluster and locality", () => {
    const loads = new LoadReports();
    loads.record("gateway-1", [cluster("ranker/41", at("a//", 10, 7, 1, 2), at("b//", 3, 3, 0))], 1_000);
    loads.record("gateway-1", [cluster("ranker/41", at("a//", 4, 6, 0))], 2_000);
    loads.record("gateway-2", [cluster("ranker/41", at("a//", 1, 1, 0))], 2_000);
    expect(loads.loads()).toEqual([
      {
        nodeId: "gateway-1",
        cluster: "ranker/41",
        locality: "a//",
        last: at("a//", 4, 6, 0),
        lastAtMs: 2_000,
        sum: { issued: 14, success: 13, error: 1, inProgress: 0, unfinished: 0 },
      },
      {
        nodeId: "gateway-1",
        cluster: "ranker/41",
        locality: "b//",
        last: at("b//", 0, 0, 0),
        lastAtMs: 2_000,
        sum: { issued: 3, success: 3, error: 0, inProgress: 0, unfinished: 0 },
      },
      {
        nodeId: "gateway-2",
        cluster: "ranker/41",
        locality: "a//",
        last: at("a//", 1, 1, 0),
        lastAtMs: 2_000,
        sum: { issued: 1, success: 1, error: 0, inProgress: 0, unfinished: 0 },
      },
    ]);
    expect(loads.clusterSums()).toEqual(
      new Map([["ranker/41", { issued: 18, success: 17, error: 1, inProgress: 0, unfinished: 0 }]]),
    );
  });

  it("counts as unfinished what ended neither way, without what is still under way", () => {
    const loads = new LoadReports();
    loads.record("gateway-1", [cluster("ranker/41", at("//", 10, 4, 1, 3))], 0);
    expect(loads.clusterSums().get("ranker/41")?.unfinished).toBe(2);
    loads.record("gateway-1", [cluster("ranker/41", at("//", 0, 1, 0, 0))], 1_000);
    expect(loads.clusterSums().get("ranker/41")?.unfinished).toBe(4);
  });

  it("is never below 0 when calls end that were issued before the stream began", () => {
    const loads = new LoadReports();
    loads.record("gateway-1", [cluster("ranker/41", at("//", 0, 5, 0))], 0);
    expect(loads.loads()[0]?.sum.unfinished).toBe(0);
  });

  it("puts entries of one locality together, which differ in priority only", () => {
    const loads = new LoadReports();
    loads.record("gateway-1", [cluster("ranker/41", at("//", 2, 2, 0, 1), at("//", 3, 1, 0, 1))], 0);
    expect(loads.loads()).toMatchObject([{ last: at("//", 5, 3, 0, 2), sum: { issued: 5, unfinished: 0 } }]);
  });

  it("knows clusters without a call, and forgets those that are reported no more", () => {
    const loads = new LoadReports({ keepMs: 5_000, localitiesMax: 1 });
    loads.record("gateway-1", [cluster("ranker/41", at("//", 1, 1, 0)), cluster("idle")], 0);
    expect([...loads.clusterSums().keys()]).toEqual(["ranker/41", "idle"]);
    loads.record("gateway-1", [cluster("idle")], 5_000);
    expect([...loads.clusterSums().keys()]).toEqual(["ranker/41", "idle"]);
    loads.record("gateway-1", [cluster("idle")], 5_001);
    expect([...loads.clusterSums().keys()]).toEqual(["idle"]);
    expect(loads.loads()).toEqual([]);
    // Its locality makes room for another one.
    loads.record("gateway-1", [cluster("ranker/42", at("//", 1, 1, 0))], 5_002);
    expect(loads.loads().map((load) => load.cluster)).toEqual(["ranker/42"]);
  });

  it("keeps a cluster's sum when one of its nodes leaves, and drops it with the last", () => {
    const loads = new LoadReports();
    loads.record("gateway-1", [cluster("ranker/41", at("//", 10, 8, 1, 1))], 0);
    loads.record("gateway-2", [cluster("ranker/41", at("//", 5, 5, 0))], 0);
    loads.forget("gateway-1");
    const both = { issued: 15, success: 13, error: 1, inProgress: 0, unfinished: 0 };
    expect(loads.clusterSums().get("ranker/41")).toEqual(both);
    expect(loads.loads().map(({ nodeId }) => nodeId)).toEqual(["gateway-2"]);
    loads.forget("gateway-2");
    loads.forget("gateway-2");
    expect(loads.clusterSums().size).toBe(0);
    loads.record("gateway-1", [cluster("ranker/41", at("//", 1, 1, 0))], 0);
    expect(loads.clusterSums().get("ranker/41")?.issued).toBe(1);
  });

  it("leaves out what is above a limit, and says how much", () => {
    const loads = new LoadReports({ clustersMax: 2, localitiesMax: 1, nameMaxChars: 10 });
    const long = "x".repeat(11);
    loads.record(
      "gateway-1",
      [
        cluster("a", at("1//", 1, 1, 0), at("2//", 1, 1, 0)),
        cluster(long),
        cluster(""),
        cluster("b", at(long, 1, 1, 0)),
        cluster("c"),
      ],
      0,
    );
    expect([...loads.clusterSums()]).toEqual([
      ["a", { issued: 1, success: 1, error: 0, inProgress: 0, unfinished: 0 }],
      ["b", { issued: 0, success: 0, error: 0, inProgress: 0, unfinished: 0 }],
    ]);
    expect(loads.ignoredCount).toBe(4 + 1);
    // What is gone makes room.
    loads.forget("gateway-1");
    loads.record("gateway-1", [cluster("b", at("2//", 1, 1, 0))], 0);
    expect(loads.loads()).toHaveLength(1);
  });
});
