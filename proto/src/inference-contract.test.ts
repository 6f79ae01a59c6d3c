import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { meshDescriptorPath, protoRoot } from "./sources.js";

type Facts = Record<"messages" | "enums" | "methods", Record<string, unknown>>;

/** Full name of every message, enum and RPC with all that travels or that generated code shows. */
function inferenceFacts(...args: string[]): Facts {
  const python = join(protoRoot, "..", ".venv", "bin", "python");
  const script = join(protoRoot, "codegen", "inference-facts.py");
  return JSON.parse(execFileSync(python, [script, ...args], { encoding: "utf8" })) as Facts;
}

const theirs = inferenceFacts();
const ours = inferenceFacts(meshDescriptorPath);

/** The only parts of tritonclient's contract that ours leaves out. */
const LEFT_OUT = /^inference\.(GRPCInferenceService\.)?(SystemSharedMemory|CudaSharedMemory|TraceSetting|LogSettings)/;

describe.each(["messages", "enums", "methods"] as const)("inference %s, ours against tritonclient's", (kind) => {
  it.each(Object.keys(theirs[kind]).filter((name) => !LEFT_OUT.test(name)))("%s is equal", (name) => {
    expect(ours[kind][name]).toEqual(theirs[kind][name]);
  });

  it("has nothing of its own", () => {
    expect(Object.keys(ours[kind]).filter((name) => !(name in theirs[kind]))).toEqual([]);
  });
});

it("compared the whole contract", () => {
  expect(Object.keys(theirs.messages).length).toBeGreaterThan(100);
  expect(Object.keys(theirs.methods)).toHaveLength(20);
});
