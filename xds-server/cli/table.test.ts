import { describe, expect, it } from "vitest";
import { formatTable } from "./table.js";

describe("formatTable", () => {
  it("is as wide as its longest cells, without trailing spaces", () => {
    const rows = [
      ["ranker-41", "ready", ""],
      ["r", "starting", "loading"],
    ];
    expect(formatTable(["REPLICA", "STATE", "DETAIL"], rows)).toBe(
      "REPLICA    STATE     DETAIL\nranker-41  ready\nr          starting  loading\n",
    );
  });

  it("is nothing without rows", () => {
    expect(formatTable(["A"], [])).toBe("");
  });

  it("never lets a text of the mesh command the terminal", () => {
    expect(formatTable(["A"], [["a\u001b[2Jb\r\nc\u0007"]])).toBe("A\na [2Jb c\n");
  });
});
