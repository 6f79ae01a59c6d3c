import { describe, expect, it } from "vitest";
import { afterCall, afterProbe, type HealthState, INITIAL_HEALTH, isServing } from "./health-policy.js";

const ready = afterProbe(INITIAL_HEALTH, { kind: "ok" });

describe("health of the model server", () => {
  it("becomes ready only by a good probe", () => {
    expect(isServing(INITIAL_HEALTH)).toBe(false);
    expect(isServing(afterCall(INITIAL_HEALTH, undefined, ""))).toBe(false);
    expect(ready.phase).toBe("ready");
  });

  it("serves on while in doubt, until a probe has failed", () => {
    const suspect = afterCall(ready, "unreachable", "connection refused");
    expect([suspect.phase, isServing(suspect)]).toEqual(["suspect", true]);
    const down = afterProbe(suspect, { kind: "failed", failure: "unreachable", detail: "still" });
    expect([down.phase, isServing(down), down.detail]).toEqual(["unhealthy", false, "still"]);
    expect(afterProbe(suspect, { kind: "ok" }).phase).toBe("ready");
  });

  it("leaves routing at once after a dead python process, and asks for a new load", () => {
    const dead = afterCall(ready, "stub_dead", "stub");
    expect([isServing(dead), dead.needsLoad]).toEqual([false, true]);
    const down = afterProbe(dead, { kind: "failed", failure: "stub_dead", detail: "stub" });
    expect([down.phase, down.needsLoad]).toEqual(["unhealthy", true]);
  });

  it("is not shaken by refused inputs or single failures", () => {
    let state: HealthState = ready;
    for (let index = 0; index < 100; index += 1) state = afterCall(state, "rejected", "bad");
    for (let index = 0; index < 4; index += 1) state = afterCall(state, "failed", "boom");
    expect(state.phase).toBe("ready");
    expect(afterCall(state, "failed", "boom").phase).toBe("suspect");
    expect(afterCall(state, undefined, "").failures).toBe(0);
  });
});
