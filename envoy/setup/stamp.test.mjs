import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fingerprint } from "./stamp.mjs";

let dir;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "stamp-test-"));
  mkdirSync(join(dir, "sub"));
  writeFileSync(join(dir, "sub", "a.ts"), "one");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const print = (more = {}) => fingerprint({ files: [dir], ...more });

describe("fingerprint", () => {
  it("is the same for the same inputs", () => {
    expect(print()).toBe(print());
  });

  it.each([
    ["content", () => writeFileSync(join(dir, "sub", "a.ts"), "two")],
    ["a name", () => renameSync(join(dir, "sub", "a.ts"), join(dir, "sub", "b.ts"))],
    ["a new file", () => writeFileSync(join(dir, "sub", "b.ts"), "")],
    ["a missing file", () => rmSync(join(dir, "sub", "a.ts"))],
  ])("changes with %s", (_, change) => {
    const before = print();
    change();
    expect(print()).not.toBe(before);
  });

  it("changes with a fact", () => {
    expect(print({ facts: ["python 3.11.7"] })).not.toBe(print({ facts: ["python 3.12.1"] }));
  });

  it("ignores build outputs and what is not accepted", () => {
    const accept = (path) => path.endsWith(".ts");
    const before = print({ accept });
    mkdirSync(join(dir, "dist"));
    writeFileSync(join(dir, "dist", "a.ts"), "built");
    writeFileSync(join(dir, "notes.txt"), "note");
    expect(print({ accept })).toBe(before);
  });
});
