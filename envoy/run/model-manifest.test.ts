import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findVersion, readModelManifest, versionRecord } from "./model-manifest.js";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "servemesh-manifest-"));
  const entry = {
    model: "ranker",
    version: "41",
    description: "a network",
    repository: "repositories/ranker-41",
    auc: 0.77,
    artifactDigest: `sha256:${"0".repeat(64)}`,
    lineage: { data: "ratings" },
    serving: {
      inputs: [{ name: "user_id", datatype: "INT64", shape: ["-1", "1"] }],
      outputs: [{ name: "score", datatype: "FP32", shape: ["-1", "1"] }],
      batching: { maxBatchSize: 8, maxQueueDelayUs: 4000 },
      cache: { enabled: true, maxBytes: "1024" },
    },
  };
  writeFileSync(join(folder, "manifest.json"), JSON.stringify({ versions: [entry] }));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("readModelManifest", () => {
  it("says how to get the models when they are missing", () => {
    expect(() => readModelManifest(join(folder, "none"))).toThrow(/models are missing .*; run `npm run setup`$/);
  });

  it("reads versions as the registry knows them", () => {
    const version = findVersion(readModelManifest(folder), "ranker:41");
    expect(version.version).toBe(41n);
    expect(version.repository).toBe(join(folder, "repositories/ranker-41"));
    expect(version.serving.inputs[0]?.shape).toEqual([-1n, 1n]);
  });

  it("lists what there is when a version is not", () => {
    expect(() => findVersion(readModelManifest(folder), "ranker:44")).toThrow(/ranker:44 is not .*\(ranker:41\)$/);
  });
});

describe("versionRecord", () => {
  it("is the version as it was built", () => {
    const record = versionRecord(findVersion(readModelManifest(folder), "ranker:41"));
    expect(record).toMatchObject({
      model: "ranker",
      version: 41n,
      lineage: { data: "ratings", description: "a network" },
    });
    expect(record.serving?.batching).toMatchObject({ maxBatchSize: 8, maxQueueDelayUs: 4000, maxQueueSize: 0 });
    expect(record.serving?.cache).toEqual({ enabled: true, maxBytes: 1024n });
  });

  it("puts in what a run sets differently and leaves the rest, and the version itself, as it is", () => {
    const version = findVersion(readModelManifest(folder), "ranker:41");
    const record = versionRecord(version, { maxQueueDelayUs: 50_000, cacheEnabled: false });
    expect(record.serving?.batching).toMatchObject({ maxBatchSize: 8, maxQueueDelayUs: 50_000 });
    expect(record.serving?.cache).toEqual({ enabled: false, maxBytes: 1024n });
    expect(version.serving.batching?.maxQueueDelayUs).toBe(4000);
  });
});
