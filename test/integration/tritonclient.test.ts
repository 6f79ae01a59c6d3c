import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestMesh, type TestMesh } from "../support/mesh.js";
import { callTritonclient, type TritonOrder } from "../support/tritonclient.js";

describe("the unmodified tritonclient through the mesh", () => {
  let mesh: TestMesh;
  beforeAll(async () => {
    mesh = await startTestMesh("tritonclient", { replicas: ["ranker:41"] });
  });
  afterAll(() => mesh?.stop());

  const order = (door: "http" | "grpc", change: Partial<TritonOrder> = {}): TritonOrder => ({
    door,
    address: mesh.httpAddress,
    model: "ranker@prod",
    headers: { "x-api-key": mesh.apiKey },
    inputs: [
      { name: "user_id", datatype: "INT64", shape: [2, 1], values: [[196], [186]] },
      { name: "item_id", datatype: "INT64", shape: [2, 1], values: [[242], [302]] },
    ],
    outputs: ["score"],
    ...change,
  });

  it("gets the same scores by gRPC, by HTTP with binary tensors and by HTTP with JSON", async () => {
    const answers = [
      await callTritonclient(order("grpc")),
      await callTritonclient(order("http")),
      await callTritonclient(order("http", { binary: false })),
    ];
    expect(answers.map((answer) => answer.error)).toEqual([undefined, undefined, undefined]);
    const [first, ...others] = answers.map((answer) => answer.outputs?.score as number[][]);
    expect(first?.flat().every((score) => score > 0 && score < 1)).toBe(true);
    expect(new Set(first?.flat()).size).toBe(2);
    for (const other of others) expect(other).toEqual(first);
    expect(answers.map((answer) => answer.model_version)).toEqual(["41", "41", "41"]);
  });

  it("prints our text, not a decode error, when the gate refuses", async () => {
    for (const door of ["http", "grpc"] as const) {
      const unknown = await callTritonclient(order(door, { model: "nosuch" }));
      expect(unknown.error).toMatch(/model/);
      expect(unknown.error).not.toMatch(/decode|JSON|Expecting/i);
      const anonymous = await callTritonclient(order(door, { headers: {} }));
      expect(anonymous.error).toMatch(/key/);
    }
  });

  it.each(["http", "grpc"] as const)(
    "prints our text, naming the input, when the batcher refuses: %s",
    async (door) => {
      const whole = order(door);
      const short = {
        ...whole.inputs[0],
        values: [[1], [2]],
        value_datatype: "INT32",
      } as (typeof whole.inputs)[number];
      const answer = await callTritonclient({ ...whole, inputs: [short, ...whole.inputs.slice(1)] });
      expect(answer.error).toMatch(/user_id/);
      expect(answer.error).toMatch(/16 bytes.*8/);
    },
  );
});
