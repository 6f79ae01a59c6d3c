import { describe, expect, it } from "vitest";
import { refusalWords } from "./refusal-words.js";

const DUMP = 'goo.gle/debugproto   \nname: "model/ranker/41"\nconnect_timeout {\n}\n';

describe("refusalWords", () => {
  it.each([
    ["Unable to create Wasm plugin gate\n", "Unable to create Wasm plugin gate"],
    [`${DUMP}: Proto constraint validation failed (X.Y)`, "Proto constraint validation failed (X.Y)"],
    [`Error adding cluster: ${DUMP}: bad\n`, "Error adding cluster: bad"],
    [`${DUMP.slice(0, 40)}...(truncated)`, expect.stringContaining("Envoy's own log has it")],
    ["x".repeat(5_000), "x".repeat(1_000)],
    ["", ""],
  ])("keeps the reason of %j", (message, words) => {
    expect(refusalWords(message)).toEqual(words);
  });
});
