import { describe, expect, it } from "vitest";
import type { ParameterValue, Tensor } from "../request.js";
import { LruPredictionCache } from "./prediction-cache.js";
import { type KeyParts, predictionKey } from "./prediction-key.js";

const bytes = (...texts: string[]): Buffer =>
  Buffer.concat(
    texts.map((text) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(text.length);
      return Buffer.concat([length, Buffer.from(text)]);
    }),
  );
const tensor = (over: Partial<Tensor> = {}): Tensor => ({
  name: "x",
  datatype: "FP32",
  shape: [1, 4],
  data: Buffer.alloc(16),
  ...over,
});
const base: KeyParts = {
  tenant: "acme",
  servingDigest: "v41",
  inputs: [tensor()],
  requestedOutputs: [],
  parameters: new Map<string, ParameterValue>(),
};

describe("predictionKey", () => {
  it("differs in everything that can change an answer (C224, C226, C227, C230, C235)", () => {
    const parts: KeyParts[] = [
      base,
      { ...base, tenant: "beta" },
      { ...base, tenant: "a", servingDigest: "bc" },
      { ...base, tenant: "ab", servingDigest: "c" },
      { ...base, servingDigest: "v42" },
      { ...base, inputs: [tensor({ shape: [2, 2] })] },
      { ...base, inputs: [tensor({ datatype: "INT32" })] },
      { ...base, inputs: [tensor({ name: "y" })] },
      { ...base, inputs: [tensor({ data: Buffer.from("1234567812345678") })] },
      { ...base, inputs: [tensor(), tensor({ name: "hint" })] },
      { ...base, inputs: [tensor({ datatype: "BYTES", shape: [2], data: bytes("a", "b,c") })] },
      { ...base, inputs: [tensor({ datatype: "BYTES", shape: [2], data: bytes("a,b", "c") })] },
      { ...base, requestedOutputs: ["scores"] },
      { ...base, requestedOutputs: ["scores", "label"] },
      { ...base, parameters: new Map<string, ParameterValue>([["t", 1]]) },
      { ...base, parameters: new Map<string, ParameterValue>([["t", 1n]]) },
      { ...base, parameters: new Map<string, ParameterValue>([["t", "1"]]) },
      { ...base, parameters: new Map<string, ParameterValue>([["t", true]]) },
    ];
    const keys = parts.map(predictionKey);
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys.every((key) => key.length === 32)).toBe(true);
  });

  it("does not depend on the order of inputs or parameters", () => {
    const a = tensor({ name: "a" });
    const b = tensor({ name: "b" });
    const one = new Map<string, ParameterValue>([
      ["p", 1],
      ["q", 2],
    ]);
    const other = new Map<string, ParameterValue>([
      ["q", 2],
      ["p", 1],
    ]);
    expect(predictionKey({ ...base, inputs: [a, b], parameters: one })).toBe(
      predictionKey({ ...base, inputs: [b, a], parameters: other }),
    );
  });
});

describe("LruPredictionCache", () => {
  const answer = (size: number) => ({
    outputs: [tensor({ data: Buffer.alloc(size) })],
    parameters: new Map<string, ParameterValue>(),
    featureDigest: "",
  });

  it("is bounded by bytes and forgets the least recently used first", () => {
    const cache = new LruPredictionCache(16 * 1024);
    for (let index = 0; index < 100; index += 1) {
      cache.put(`k${index}`, answer(1000));
      cache.get("k0");
      expect(cache.bytes).toBeLessThanOrEqual(16 * 1024);
    }
    expect(cache.get("k0")).toBeDefined();
    expect(cache.get("k99")).toBeDefined();
    expect(cache.get("k50")).toBeUndefined();
  });

  it("copies what it keeps, and leaves out what would take more than its share", () => {
    const cache = new LruPredictionCache(16 * 1024);
    const batch = Buffer.alloc(8, 1);
    cache.put("k", { outputs: [tensor({ data: batch.subarray(4) })], parameters: new Map(), featureDigest: "" });
    batch.fill(9);
    const kept = cache.get("k")?.outputs[0]?.data;
    expect([...(kept ?? [])]).toEqual([1, 1, 1, 1]);
    expect(kept?.buffer.byteLength).toBe(4);
    cache.put("large", answer(4000));
    expect(cache.get("large")).toBeUndefined();
  });
});
