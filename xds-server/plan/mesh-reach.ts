import type { Finding } from "../registry/state.js";
import type { ClusterPlan, MeshPlan } from "./mesh-plan.js";

/** A list of clusters that did not change is not looked through again. */
const known = new WeakMap<readonly ClusterPlan[], readonly string[]>();

/**
 * What is wrong with groups that have no mesh identity while some batchers take nobody without one: their Envoys never call
 * these.
 * @param hasIdentity whether the group of a gateway record has one in force
 */
export function reachFindings(plan: MeshPlan, hasIdentity: (gateway: string) => boolean): Finding[] {
  const versions = known.get(plan.clusters) ?? versionsWithTls(plan.clusters);
  known.set(plan.clusters, versions);
  const [first] = versions;
  if (first === undefined) return [];
  const which = versions.length === 1 ? first : `${first} and ${versions.length - 1} more versions`;
  return plan.gateways
    .filter(({ name }) => !hasIdentity(name))
    .map(({ name }) => ({
      severity: "warning",
      subject: `gateways/${name}`,
      message: `replicas of ${which} speak TLS, which this group's Envoys cannot; set mesh_certificate_file, mesh_private_key_file and mesh_ca_file`,
    }));
}

function versionsWithTls(clusters: readonly ClusterPlan[]): string[] {
  return clusters.filter(({ endpoints }) => endpoints.some(({ tls }) => tls)).map(({ version }) => version);
}
