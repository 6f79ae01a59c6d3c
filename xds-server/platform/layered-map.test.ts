import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { changesBetween, LayeredMap } from "./layered-map.js";

/** The same sequences in every run; change it to search further. */
const SEED = 20_261_201;

/** Few keys, so that entries are changed, taken out and put back often; long runs, so that bases are written anew. */
const drawnChange = fc.tuple(
  fc.integer({ min: 0, max: 99 }).map(String),
  fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
);
const drawnRun = fc.array(fc.array(drawnChange, { maxLength: 4 }), { maxLength: 120 });

describe("LayeredMap", () => {
  it("holds what a plain map holds after the same changes, and never changes itself", () => {
    fc.assert(
      fc.property(drawnRun, (run) => {
        const plain = new Map<string, number>([["0", 1]]);
        let layered = LayeredMap.over(new Map(plain));
        for (const changes of run) {
          const before = layered;
          const held = new Map(before);
          layered = layered.with(changes);
          for (const [key, value] of changes) value === undefined ? plain.delete(key) : plain.set(key, value);
          expect(new Map(layered)).toEqual(plain);
          expect(layered.size).toBe(plain.size);
          expect(new Map(before)).toEqual(held);
          for (const [key] of changes) expect(layered.has(key)).toBe(plain.has(key));
        }
      }),
      { seed: SEED, numRuns: 50 },
    );
  });

  it("gives the differences of any two maps of a sequence", () => {
    fc.assert(
      fc.property(drawnRun, fc.nat(), fc.nat(), (run, from, to) => {
        const states = [LayeredMap.over(new Map<string, number>())];
        for (const changes of run) states.push((states.at(-1) as LayeredMap<number>).with(changes));
        const before = states[from % states.length] as LayeredMap<number>;
        const after = states[to % states.length] as LayeredMap<number>;
        const byKey = (a: { key: string }, b: { key: string }): number => (a.key < b.key ? -1 : 1);
        const plainly = changesBetween(new Map(before), new Map(after));
        expect([...changesBetween(before, after)].sort(byKey)).toEqual([...plainly].sort(byKey));
      }),
      { seed: SEED, numRuns: 100 },
    );
  });

  it("keeps the place of a changed entry, and puts new ones last", () => {
    const map = LayeredMap.over(
      new Map([
        ["a", 1],
        ["b", 2],
      ]),
    );
    const next = map.with([
      ["c", 3],
      ["a", 4],
    ]);
    expect([...next]).toEqual([
      ["a", 4],
      ["b", 2],
      ["c", 3],
    ]);
    expect([...next.keys()]).toEqual(["a", "b", "c"]);
    expect([...next.values()]).toEqual([4, 2, 3]);
  });
});
