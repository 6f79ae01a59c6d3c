import { describe, expect, it } from "vitest";
import { groupOf, type NodeGroup } from "./node-groups.js";

const group = (name: string, role: string, labels: Record<string, string> = {}): NodeGroup => ({
  name,
  role,
  labels: Object.entries(labels),
});

const groups = [
  group("edge", "gateway"),
  group("default", "gateway"),
  group("eu", "gateway", { region: "eu" }),
  group("eu-canary", "gateway", { region: "eu", ring: "canary" }),
  group("apps", "sidecar", { app: "shop" }),
];

function of(role: string, labels: Record<string, string> = {}): string | undefined {
  return groupOf({ id: "node", role, labels: new Map(Object.entries(labels)) }, groups);
}

describe("the group of an Envoy", () => {
  it("is the one with most labels of those that fit", () => {
    expect(of("gateway", { region: "eu" })).toBe("eu");
    expect(of("gateway", { region: "eu", ring: "canary", more: "x" })).toBe("eu-canary");
  });

  it("is none but the one that its certificate is good for", () => {
    const bound = (role: string, labels: Record<string, string>, name: string) =>
      groupOf({ id: "node", role, labels: new Map(Object.entries(labels)), group: name }, groups);
    expect(bound("gateway", { region: "eu", ring: "canary" }, "eu")).toBe("eu");
    expect(bound("gateway", {}, "eu")).toBeUndefined();
    expect(bound("sidecar", { app: "shop" }, "eu")).toBeUndefined();
    expect(bound("gateway", {}, "gone")).toBeUndefined();
  });

  it("is the first by name of those with as many labels", () => {
    expect(of("gateway")).toBe("default");
    expect(of("gateway", { region: "us" })).toBe("default");
  });

  it("is none without the role, or with another value of a label", () => {
    expect(of("")).toBeUndefined();
    expect(of("Gateway")).toBeUndefined();
    expect(of("sidecar")).toBeUndefined();
    expect(of("sidecar", { app: "other" })).toBeUndefined();
    expect(of("sidecar", { app: "shop" })).toBe("apps");
  });
});
