import { describe, expect, it } from "vitest";
import { compileGateConfig } from "./compile.js";
import { BLOB_MAGIC, BLOB_MAJOR, SECTION } from "./format.js";
import {
  GATE_LIMITS,
  type GateAlias,
  type GateConfig,
  GateConfigError,
  type GateModel,
  type GateTenant,
} from "./gate-config.js";

const model: GateModel = {
  name: "ranker",
  defaultAlias: "prod",
  deadlineMs: 2000,
  stickyHeader: "x-predict-sticky-key",
  allowedTenants: ["acme", "beta"],
  aliases: [{ name: "prod" }, { name: "canary", deadlineMs: 300, shadowCluster: "model/ranker/43" }],
  versions: [42n, 41n],
};
const tenant: GateTenant = {
  name: "acme",
  keyDigests: [Buffer.alloc(32, 1), Buffer.alloc(32, 2)],
  priority: "interactive",
  models: ["ranker", "other"],
};
const config: GateConfig = {
  models: [model, { ...model, name: "other" }],
  tenants: [tenant, { name: "beta", keyDigests: [Buffer.alloc(32, 3)], priority: "batch", models: ["*"] }],
};

describe("compileGateConfig", () => {
  it("gives the same bytes whatever the order of the lists", () => {
    const reversed: GateConfig = {
      models: [...config.models].reverse().map((one) => ({
        ...one,
        aliases: [...one.aliases].reverse(),
        versions: [...one.versions].reverse(),
        allowedTenants: [...one.allowedTenants].reverse(),
      })),
      tenants: [...config.tenants]
        .reverse()
        .map((one) => ({ ...one, keyDigests: [...one.keyDigests].reverse(), models: [...one.models].reverse() })),
    };
    expect(Buffer.compare(compileGateConfig(reversed), compileGateConfig(config))).toBe(0);
  });

  it("begins with magic, version, its length and one entry for each section", () => {
    const blob = Buffer.from(compileGateConfig(config));
    expect(blob.readUInt32LE(0)).toBe(BLOB_MAGIC);
    expect(blob.toString("latin1", 0, 4)).toBe("SMGT");
    expect(blob.readUInt16LE(4)).toBe(BLOB_MAJOR);
    expect(blob.readUInt32LE(8)).toBe(blob.length);
    expect(blob.readUInt32LE(12)).toBe(Object.keys(SECTION).length);
  });

  it("takes an empty configuration and ignores names that are gone", () => {
    expect(compileGateConfig({ models: [], tenants: [] }).length).toBeGreaterThan(0);
    const stale: GateConfig = { ...config, models: [{ ...model, allowedTenants: ["acme", "gone"] }] };
    const clean: GateConfig = {
      ...config,
      models: [{ ...model, allowedTenants: ["acme"] }],
      tenants: [{ ...tenant, models: ["ranker"] }, ...config.tenants.slice(1)],
    };
    expect(Buffer.compare(compileGateConfig(stale), compileGateConfig(clean))).toBe(0);
  });

  const withModel = (change: Partial<GateModel>): GateConfig => ({ ...config, models: [{ ...model, ...change }] });
  const withAlias = (change: Partial<GateAlias>): GateConfig => withModel({ aliases: [{ name: "prod", ...change }] });
  const withTenant = (change: Partial<GateTenant>): GateConfig => ({ ...config, tenants: [{ ...tenant, ...change }] });

  it.each<[GateConfig, string]>([
    [withModel({ name: "Ranker" }), "models[0].name"],
    [withModel({ name: "m".repeat(64) }), "models[0].name"],
    [withModel({ defaultAlias: "9" }), "models[0] (ranker).defaultAlias"],
    [withModel({ deadlineMs: 0 }), "models[0] (ranker).deadlineMs"],
    [withModel({ deadlineMs: 600_001 }), "models[0] (ranker).deadlineMs"],
    [withModel({ deadlineMs: 1.5 }), "models[0] (ranker).deadlineMs"],
    [withModel({ stickyHeader: "X-Key" }), "models[0] (ranker).stickyHeader"],
    [withModel({ stickyHeader: "authorization" }), "models[0] (ranker).stickyHeader"],
    [withModel({ stickyHeader: "x-servemesh-tenant" }), "models[0] (ranker).stickyHeader"],
    [withModel({ stickyHeader: ":path" }), "models[0] (ranker).stickyHeader"],
    [withModel({ versions: [0n] }), "models[0] (ranker).versions[0]"],
    [withModel({ versions: [2n ** 63n] }), "models[0] (ranker).versions[0]"],
    [withModel({ versions: [1n, 1n] }), "models[0] (ranker).versions[1]"],
    [
      withModel({ versions: Array.from({ length: 1001 }, (_, index) => BigInt(index + 1)) }),
      "models[0] (ranker).versions",
    ],
    [withModel({ aliases: [{ name: "prod" }, { name: "prod" }] }), "models[0] (ranker).aliases[1]"],
    [withAlias({ name: "Prod" }), "models[0] (ranker).aliases[0].name"],
    [withAlias({ deadlineMs: -1 }), "models[0] (ranker).aliases[0].deadlineMs"],
    [withAlias({ shadowCluster: "" }), "models[0] (ranker).aliases[0].shadowCluster"],
    [withAlias({ shadowCluster: "a b" }), "models[0] (ranker).aliases[0].shadowCluster"],
    [withAlias({ shadowCluster: "s".repeat(201) }), "models[0] (ranker).aliases[0].shadowCluster"],
    [withTenant({ name: "Acme" }), "tenants[0].name"],
    [withTenant({ keyDigests: [Buffer.alloc(31)] }), "tenants[0] (acme).keyDigests[0]"],
    [withTenant({ priority: "urgent" as "batch" }), "tenants[0] (acme).priority"],
    [
      withTenant({ keyDigests: Array.from({ length: 17 }, (_, index) => Buffer.alloc(32, index)) }),
      "tenants[0] (acme).keyDigests",
    ],
    [{ ...config, models: [model, model] }, "models[1]"],
    [
      { ...config, tenants: [tenant, { ...tenant, name: "beta" }] },
      "tenants[1] (beta).keyDigests[0] is the key of tenant acme too",
    ],
    [{ ...config, tenants: [tenant, tenant] }, "tenants[1]"],
  ])("case %#: names the field", (broken, field) => {
    expect(() => compileGateConfig(broken)).toThrow(GateConfigError);
    expect(() => compileGateConfig(broken)).toThrow(field);
  });

  it("never shows a digest", () => {
    const digest = Buffer.alloc(32, 0xab);
    const twice: GateConfig = {
      models: [],
      tenants: [
        { ...tenant, keyDigests: [digest] },
        { ...tenant, name: "beta", keyDigests: [digest] },
      ],
    };
    expect(() => compileGateConfig(twice)).toThrow(/^(?!.*abab)/);
  });

  it("refuses what is beyond its limits with the limit", () => {
    const many = Array.from({ length: GATE_LIMITS.models + 1 }, (_, index) => ({ ...model, name: `m-${index}` }));
    expect(() => compileGateConfig({ models: many, tenants: [] })).toThrow(
      "models: 10001 is more than the limit of 10000",
    );
  });
});
