import { describe, expect, it } from "vitest";
import { EXTENSION_TYPE, ROUTE_TYPE } from "../snapshot/resource-types.js";
import { Patience } from "./patience.js";

describe("Patience", () => {
  it("lets an entry pass after its type's time and tells so", () => {
    const expired: string[] = [];
    const patience = new Patience((type) => expired.push(type));
    expect(patience.allows(ROUTE_TYPE, "a", "wait", 10)).toBe(false);
    expect(patience.allows(EXTENSION_TYPE, "gate", "wait", 10)).toBe(false);
    expect(patience.nextDeadlineMs(10)).toBe(1_010);
    expect(patience.allows(EXTENSION_TYPE, "gate", "wait", 1_010)).toBe(true);
    patience.passed(EXTENSION_TYPE, "gate", 1_010);
    expect(patience.nextDeadlineMs(1_010)).toBe(3_010);
    expect(patience.allows(ROUTE_TYPE, "a", "go", 1_020)).toBe(true);
    patience.passed(ROUTE_TYPE, "a", 1_020);
    expect(expired).toEqual([EXTENSION_TYPE]);
    expect(patience.nextDeadlineMs(1_020)).toBeUndefined();
  });

  it("never lets a held entry pass, and never asks to be woken for one that is overdue", () => {
    const patience = new Patience(() => undefined);
    expect(patience.allows(ROUTE_TYPE, "a", "hold", 0)).toBe(false);
    expect(patience.nextDeadlineMs(0)).toBeUndefined();
    patience.allows(ROUTE_TYPE, "b", "wait", 0);
    expect(patience.nextDeadlineMs(3_000)).toBeUndefined();
  });

  it("forgets what is not wanted any more", () => {
    const patience = new Patience(() => undefined);
    patience.allows(ROUTE_TYPE, "a", "wait", 0);
    patience.keepOnly(() => false);
    expect(patience.allows(ROUTE_TYPE, "a", "wait", 5_000)).toBe(false);
  });
});
