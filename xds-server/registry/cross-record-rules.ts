import type { Replica, Tenant } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { formatKey } from "./keys.js";
import type { Finding, Revisioned } from "./state.js";

/** A record with both its revisions, as far as rules over several records need it. */
interface Dated<T> extends Revisioned<T> {
  readonly createRevision: bigint;
}

/** What remains of records that must not contradict each other, and why the others are left out. */
export interface Reconciled<T> {
  readonly records: ReadonlyMap<string, Revisioned<T>>;
  readonly findings: readonly Finding[];
}

/**
 * Tenants whose keys are theirs alone. A key digest that two records hold would make a caller's identity a matter of
 * luck; the older record keeps it, the newer tenant is left out.
 */
export function withOwnKeys(tenants: ReadonlyMap<string, Dated<Tenant>>): Reconciled<Tenant> {
  const owners = new Map<string, string>();
  const records = new Map<string, Revisioned<Tenant>>();
  const findings: Finding[] = [];
  const oldestFirst = [...tenants].sort(([, a], [, b]) => (a.createRevision < b.createRevision ? -1 : 1));
  for (const [name, held] of oldestFirst) {
    const digests = held.value.keys.map((key) => Buffer.from(key.sha256).toString("hex"));
    const owner = digests.map((digest) => owners.get(digest)).find((other) => other !== undefined);
    if (owner === undefined) {
      for (const digest of digests) owners.set(digest, name);
      records.set(name, held);
    } else {
      const message = `keys holds a key of tenant ${owner} too, so this tenant is left out; give each tenant its own keys`;
      findings.push({ severity: "error", subject: formatKey({ kind: "tenant", tenant: name }), message });
    }
  }
  return { records, findings };
}

/** Replicas by id. Of two records with one id the later written one counts: a replica may have changed its version. */
export function uniqueReplicas(replicas: ReadonlyMap<string, Revisioned<Replica>>): Reconciled<Replica> {
  const records = new Map<string, Revisioned<Replica>>();
  const findings: Finding[] = [];
  const newestFirst = [...replicas].sort(([, a], [, b]) => (a.modRevision > b.modRevision ? -1 : 1));
  for (const [subject, held] of newestFirst) {
    const { id } = held.value;
    if (!records.has(id)) records.set(id, held);
    else {
      const message = `id ${id} is used by a later record too, so this one is left out; give each batcher its own id`;
      findings.push({ severity: "warning", subject, message });
    }
  }
  return { records, findings };
}
