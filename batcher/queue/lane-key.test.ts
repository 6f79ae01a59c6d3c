import { describe, expect, it } from "vitest";
import type { ParameterValue, Tensor } from "../request.js";
import { laneKey } from "./lane-key.js";

const tensor = (name: string, shape: number[], datatype: Tensor["datatype"] = "FP32"): Tensor => ({
  name,
  datatype,
  shape,
  data: new Uint8Array(),
});
const base = {
  leg: "primary" as const,
  inputs: [tensor("features", [1, 4]), tensor("user_id", [1, 1], "INT64")],
  requestedOutputs: [] as string[],
  parameters: new Map<string, ParameterValue>(),
};

describe("laneKey", () => {
  it("ignores rows, the order of inputs and the order of outputs", () => {
    const other = [tensor("user_id", [3, 1], "INT64"), tensor("features", [3, 4])];
    expect(laneKey({ ...base, inputs: other })).toBe(laneKey(base));
    expect(laneKey({ ...base, requestedOutputs: ["a", "b"] })).toBe(laneKey({ ...base, requestedOutputs: ["b", "a"] }));
  });

  it("differs in everything that a merged call has only one of", () => {
    const keys = [
      base,
      { ...base, leg: "shadow" as const },
      { ...base, inputs: [tensor("features", [1, 5]), tensor("user_id", [1, 1], "INT64")] },
      { ...base, inputs: [tensor("features", [1, 4], "FP16"), tensor("user_id", [1, 1], "INT64")] },
      { ...base, inputs: [...base.inputs, tensor("hint", [1, 1])] },
      { ...base, requestedOutputs: ["scores"] },
      { ...base, requestedOutputs: ["sco", "res"] },
      { ...base, parameters: new Map<string, ParameterValue>([["temperature", 0.1]]) },
      { ...base, parameters: new Map<string, ParameterValue>([["temperature", 0.9]]) },
      { ...base, parameters: new Map<string, ParameterValue>([["temperature", "0.9"]]) },
      { ...base, parameters: new Map<string, ParameterValue>([["seed", 1n]]) },
      { ...base, parameters: new Map<string, ParameterValue>([["seed", 1]]) },
    ].map(laneKey);
    expect(new Set(keys).size).toBe(keys.length);
  });
});
