import { createHash } from "node:crypto";
import type { CreateTenantRequest, DeepPartial } from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AdminClient } from "./admin-client.js";
import { AdminFixture, refusal } from "./admin-fixture.js";

let fixture: AdminFixture;
let admin: AdminClient;

beforeEach(async () => {
  fixture = await AdminFixture.open();
  admin = fixture.admin;
});

afterEach(() => fixture.close());

describe("tenants", () => {
  it("get one key of at least 128 random bits, of which only the digest is stored", async () => {
    const asked: DeepPartial<CreateTenantRequest> = {
      tenant: {
        name: "acme",
        models: ["ranker"],
        plan: { priority: "batch" },
        keys: [{ id: "mine", sha256: Buffer.alloc(32) }],
      },
    };
    const { apiKey, tenant } = await admin.createTenant(asked);
    expect(tenant?.keys.map(({ id, sha256 }) => [id, sha256.length])).toEqual([[apiKey.split("_")[1], 0]]);
    const [, , ...secret] = apiKey.split("_");
    expect(Buffer.from(secret.join("_"), "base64url").length).toBeGreaterThanOrEqual(16);
    const stored = fixture.test.registry.state.tenants.get("acme")?.value;
    expect(stored).toMatchObject({ models: ["ranker"], plan: { priority: "batch" } });
    expect(stored?.keys.map(({ sha256 }) => Buffer.from(sha256))).toEqual([
      createHash("sha256").update(apiKey).digest(),
    ]);
    const { items } = await fixture.test.store.list("/");
    expect(items.some(({ value }) => value.includes(apiKey))).toBe(false);
    const other = await admin.createTenant({ tenant: { name: "beta" } });
    expect(other.apiKey).not.toBe(apiKey);
    expect((await admin.listTenants()).tenants.map(({ name }) => name)).toEqual(["acme", "beta"]);
  });

  it.each([
    [{ name: "acme" }, "ALREADY_EXISTS: tenant.name: acme exists already"],
    [{ name: "Acme" }, 'INVALID_ARGUMENT: tenant.name "Acme" must match'],
    [{ name: "x", models: ["*", "ranker"] }, "INVALID_ARGUMENT: tenant: models holds * and names beside it"],
    [{ name: "x", plan: { priority: "urgent" } }, 'INVALID_ARGUMENT: tenant: plan.priority is "urgent"'],
  ])("%# are refused with the field and the remedy", async (tenant, problem) => {
    await admin.createTenant({ tenant: { name: "acme" } });
    expect(await refusal(admin.createTenant({ tenant }))).toContain(problem);
    expect(await refusal(admin.createTenant({}))).toBe("INVALID_ARGUMENT: tenant is missing; send it");
  });
});
