import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { FileDescriptorSet } from "../gen/mesh/google/protobuf/descriptor.js";
import { meshDescriptorPath, PROTO_FILES, protoRoot, restDescriptorPath } from "./sources.js";

describe("sources", () => {
  it.each(Object.values(PROTO_FILES))("has %s", (file) => {
    expect(existsSync(join(protoRoot, file))).toBe(true);
  });

  it("has a transcoder descriptor with every import", () => {
    const { file } = FileDescriptorSet.decode(readFileSync(restDescriptorPath));
    const names = new Set(file.map((f) => f.name));
    expect(names).toContain("servemesh/rest/v1/rest.proto");
    for (const f of file) for (const dependency of f.dependency) expect(names).toContain(dependency);
    const rest = file.find((f) => f.name === "servemesh/rest/v1/rest.proto");
    expect(rest?.service[0]?.method).toHaveLength(10);
    // The HTTP rules are extensions, which the codec keeps as unknown fields at most: look at the bytes.
    expect(readFileSync(restDescriptorPath).includes("/v1/models/{model}:predict")).toBe(true);
  });

  it("has a descriptor of all contracts", () => {
    const { file } = FileDescriptorSet.decode(readFileSync(meshDescriptorPath));
    expect(file.map((f) => f.package)).toEqual(
      expect.arrayContaining(["servemesh.registry.v1", "inference", "google.api"]),
    );
  });
});
