import { expect, it } from "vitest";
import { createPairSource } from "./pair-source.js";

it("gives only users and items that exist, and none twice", () => {
  const next = createPairSource(0);
  const seen = new Set<string>();
  const wrong: string[] = [];
  for (let index = 0; index < 20_000; index += 1) {
    const { userId, itemId } = next();
    const isKnown = userId >= 1 && userId <= 943 && itemId >= 1 && itemId <= 1682;
    if (!isKnown) wrong.push(`${userId} ${itemId}`);
    seen.add(`${userId} ${itemId}`);
  }
  expect(wrong).toEqual([]);
  expect(seen.size).toBe(20_000);
});

it("steps through all pairs before it repeats one", () => {
  const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));
  expect(gcd(611_953, 943 * 1682)).toBe(1);
});
