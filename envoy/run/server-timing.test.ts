import { expect, it } from "vitest";
import { parseServerTiming } from "./server-timing.js";

it("reads durations by stage, in their order", () => {
  expect([...parseServerTiming("features;dur=0.895, cache;dur=0.5,queue;dur=6, gate;dur=0.049")]).toEqual([
    ["features", 0.895],
    ["cache", 0.5],
    ["queue", 6],
    ["gate", 0.049],
  ]);
});

it("leaves out what has no duration", () => {
  expect([...parseServerTiming("cache, miss;desc=x, bad;dur=abc, infer;dur=2")]).toEqual([["infer", 2]]);
  expect(parseServerTiming(undefined).size).toBe(0);
  expect(parseServerTiming("").size).toBe(0);
});
