import {
  type DeepPartial,
  ModelVersion,
  type ServingSpec,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { describe, expect, it } from "vitest";
import type { Tensor } from "../request.js";
import { compileServingPlan } from "./serving-plan.js";
import { featureLookups, upstreamTensors } from "./transform-stage.js";

const transform = {
  name: "ranker",
  digest: "d",
  viewWidths: [2, 1],
  outputWidth: 3,
  run: (rows: number) => Buffer.alloc(rows * 12),
};
const record = (serving: DeepPartial<ServingSpec> | undefined): ModelVersion =>
  ModelVersion.fromPartial(
    serving === undefined ? { model: "ranker", version: 41n } : { model: "ranker", version: 41n, serving },
  );
const compile = (serving: DeepPartial<ServingSpec> | undefined) => {
  const version = record(serving);
  return compileServingPlan(version, version.serving?.transform ? transform : undefined, 1e6);
};

const RANKER: DeepPartial<ServingSpec> = {
  inputs: [
    { name: "user_id", datatype: "INT64", shape: [-1n, 1n] },
    { name: "item_id", datatype: "INT64", shape: [-1n, 1n] },
  ],
  outputs: [{ name: "score", datatype: "FP32", shape: [-1n, 1n] }],
  views: [
    { name: "user", entityInput: "user_id", width: 2 },
    { name: "item", entityInput: "item_id", width: 1 },
  ],
  transform: "ranker",
  upstreamInputs: [{ name: "features", datatype: "FP32", shape: [-1n, 3n] }],
};
const X = { name: "x", datatype: "FP32", shape: [-1n, 4n] };

describe("compileServingPlan", () => {
  it("takes the documented defaults for zeros", () => {
    const plan = compile({ inputs: [X], outputs: [X], cache: { enabled: true } });
    expect(plan.limits).toEqual({
      maxBatchRows: 1,
      maxDelayMs: 0,
      maxWaiting: 64,
      maxWaitingBytes: 1e6,
      maxInFlight: 1,
    });
    expect([plan.cacheMaxBytes, plan.passThrough]).toEqual([64 * 1024 ** 2, true]);
  });

  it("keeps sub-millisecond delays (C052)", () => {
    expect(compile({ inputs: [X], outputs: [X], batching: { maxQueueDelayUs: 200 } }).limits.maxDelayMs).toBe(0.2);
  });

  it("changes its digest with everything that decides an answer (C229)", () => {
    const digests = [
      compile(RANKER).digest,
      compile({ ...RANKER, outputs: [{ name: "score", datatype: "FP32", shape: [-1n, 2n] }] }).digest,
      compileServingPlan(record(RANKER), { ...transform, digest: "e" }, 1).digest,
      compileServingPlan({ ...record(RANKER), artifactDigest: "sha256:2" }, transform, 1).digest,
      compileServingPlan({ ...record(RANKER), version: 42n }, transform, 1).digest,
    ];
    expect(new Set(digests).size).toBe(digests.length);
  });

  it.each([
    [undefined, /serving: missing/],
    [{ inputs: [], outputs: [X] }, /serving.inputs: empty/],
    [{ inputs: [X, X], outputs: [X] }, /serving.inputs\[1\] "x".*unique/],
    [{ inputs: [{ ...X, datatype: "FLOAT" }], outputs: [X] }, /datatype "FLOAT"/],
    [{ inputs: [{ ...X, shape: [1n, 4n] }], outputs: [X] }, /start with -1/],
    [{ inputs: [{ ...X, shape: [-1n, -2n] }], outputs: [X] }, /below -1/],
    [
      { ...RANKER, views: [{ name: "user", entityInput: "nobody", width: 2 }] },
      /entity_input "nobody" is not an input/,
    ],
    [{ inputs: [X], outputs: [X], views: [{ name: "user", entityInput: "x", width: 2 }] }, /"x" is FP32; entity ids/],
    [{ ...RANKER, upstreamInputs: [] }, /upstream_inputs: must be named/],
    [{ ...RANKER, transform: "" }, /neither an input nor a view/],
    [{ inputs: [X], outputs: [X], transform: "ranker" }, /needs views/],
    [
      { ...RANKER, upstreamInputs: [{ name: "user", datatype: "FP32", shape: [-1n, 2n] }] },
      /makes exactly one tensor, not 0/,
    ],
    [
      { ...RANKER, views: [{ name: "user", entityInput: "user_id", width: 3 }] },
      /widths 3, but transform "ranker" takes 2,1/,
    ],
    [
      { ...RANKER, upstreamInputs: [{ name: "features", datatype: "FP32", shape: [-1n, 4n] }] },
      /width 4, but transform "ranker" makes 3/,
    ],
    [{ inputs: [X], outputs: [X], batching: { maxBatchSize: 100_000 } }, /max_batch_size: 100000 is more than/],
  ])("refuses record %#", (serving, message) => {
    expect(() => compile(serving)).toThrow(message);
  });
});

describe("upstreamTensors", () => {
  const id = (name: string, ...ids: bigint[]): Tensor => ({
    name,
    datatype: "INT64",
    shape: [ids.length, 1],
    data: Buffer.from(BigInt64Array.from(ids).buffer),
  });
  const inputs = [id("item_id", 242n, 7n), id("user_id", 196n, 2n ** 62n)];

  it("asks for features by the entity inputs", () => {
    expect(featureLookups(compile(RANKER), inputs)).toEqual([
      { view: "user", width: 2, ids: [196n, 2n ** 62n] },
      { view: "item", width: 1, ids: [242n, 7n] },
    ]);
  });

  it("runs the transform over all views, and checks what it returns", () => {
    const views = [Buffer.alloc(16), Buffer.alloc(8)];
    const [features] = upstreamTensors(compile(RANKER), inputs, views, 2);
    expect(features).toMatchObject({ name: "features", datatype: "FP32", shape: [2, 3] });
    const wrong = compileServingPlan(record(RANKER), { ...transform, run: () => Buffer.alloc(1) }, 1);
    expect(() => upstreamTensors(wrong, inputs, views, 2)).toThrow(/1 bytes, expected 24/);
  });

  it("passes inputs and views through under their own names", () => {
    const { transform: _, ...rest } = RANKER;
    const plan = compile({
      ...rest,
      upstreamInputs: [
        { name: "user", datatype: "FP32", shape: [-1n, 2n] },
        { name: "item_id", datatype: "INT64", shape: [-1n, 1n] },
      ],
    });
    const views = [Buffer.from("1234567812345678"), Buffer.alloc(8)];
    expect(upstreamTensors(plan, inputs, views, 2)).toEqual([
      { name: "user", datatype: "FP32", shape: [2, 2], data: views[0] },
      inputs[0],
    ]);
  });
});
