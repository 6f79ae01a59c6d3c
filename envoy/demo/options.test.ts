import { afterEach, expect, it, vi } from "vitest";
import { readDemoOptions } from "./options.js";

afterEach(() => vi.restoreAllMocks());

it("reads the flags", () => {
  expect(readDemoOptions([])).toEqual({ exit: false });
  expect(readDemoOptions(["--exit", "--json", "out.json", "--base-port", "21000"])).toEqual({
    exit: true,
    json: "out.json",
    basePort: 21_000,
  });
});

it.each([["--nosuch"], ["surplus"], ["--base-port", "x"], ["--json"]])("refuses %s %s", (...argv) => {
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
  expect(() => readDemoOptions(argv)).toThrow(/error: /);
});
