import type { CreateTenantResponse } from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import { Tenant } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { createApiKey, type RandomBytes } from "../registry/api-key.js";
import { formatKey } from "../registry/keys.js";
import type { Registry } from "../registry/registry.js";
import { RegistryError } from "../registry/registry-error.js";
import { checkPlainName, required, textToStore } from "./request-checks.js";

/** Makes a tenant with one fresh API key, which is in the answer and nowhere else. */
export async function createTenant(
  registry: Registry,
  asked: Tenant | undefined,
  { random, now }: { readonly random: RandomBytes; readonly now: Date },
): Promise<CreateTenantResponse> {
  const { name, models, plan } = required("tenant", asked);
  checkPlainName("tenant.name", name);
  const key = createApiKey(random);
  const tenant = Tenant.fromPartial({ name, models, keys: [{ id: key.id, sha256: key.sha256, createdAt: now }] });
  tenant.plan = plan;
  const recordKey = { kind: "tenant", tenant: name } as const;
  const storeKey = formatKey(recordKey);
  const value = textToStore(recordKey, { kind: "tenant", value: tenant });
  const revision = await registry.commit(
    [{ key: storeKey, target: "mod_revision", equals: 0n }],
    [{ kind: "put", key: storeKey, value }],
  );
  if (revision === undefined) {
    throw new RegistryError(
      "exists",
      `tenant.name: ${name} exists already; choose another name, its key cannot be shown again`,
    );
  }
  return { tenant: withoutDigests(tenant), apiKey: key.text };
}

/** All readable tenants by name. */
export function listTenants({ state }: Registry): Tenant[] {
  return [...state.tenants.values()]
    .map(({ value }) => withoutDigests(value))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Digests stay in the registry: the ids are enough to list keys. */
function withoutDigests(tenant: Tenant): Tenant {
  return { ...tenant, keys: tenant.keys.map((key) => ({ ...key, sha256: Buffer.alloc(0) })) };
}
