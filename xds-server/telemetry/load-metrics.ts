import { Counter, Gauge, type Registry } from "prom-client";
import type { LoadReports, LoadSum } from "./load-reports.js";

/** Stands for clusters that the present state does not have: Envoy's own, and those that a node made up. */
const OTHER_CLUSTERS = "other";

/**
 * Load reports as Prometheus metrics, read when somebody scrapes.
 * @param isKnown whether the present state has a cluster; only those become labels, so that their number is bounded
 */
export function observeLoadReports(
  registry: Registry,
  loads: LoadReports,
  isKnown: (cluster: string) => boolean,
): void {
  const registers = [registry];
  const perLabel = (): Map<string, LoadSum[]> => {
    const sums = new Map<string, LoadSum[]>();
    for (const [cluster, sum] of loads.clusterSums()) {
      const label = isKnown(cluster) ? cluster : OTHER_CLUSTERS;
      sums.set(label, [...(sums.get(label) ?? []), sum]);
    }
    return sums;
  };
  const total = (sums: readonly LoadSum[], field: keyof LoadSum): number =>
    sums.reduce((before, sum) => before + sum[field], 0);
  new Counter({
    name: "servemesh_load_requests_total",
    help: "Calls that gateways sent to a cluster's replicas, and how they ended",
    labelNames: ["cluster", "outcome"],
    registers,
    collect() {
      // Clusters that are gone must not leave their numbers behind.
      this.reset();
      for (const [cluster, sums] of perLabel()) {
        for (const outcome of ["issued", "success", "error"] as const) {
          this.inc({ cluster, outcome }, total(sums, outcome));
        }
      }
    },
  });
  for (const [name, help, field] of [
    ["servemesh_load_in_progress", "Calls under way at the latest reports", "inProgress"],
    [
      "servemesh_load_unfinished",
      "Calls that ended neither as success nor as error: deadlines, broken connections",
      "unfinished",
    ],
  ] as const) {
    new Gauge({
      name,
      help,
      labelNames: ["cluster"],
      registers,
      collect() {
        this.reset();
        for (const [cluster, sums] of perLabel()) this.set({ cluster }, total(sums, field));
      },
    });
  }
  new Gauge({
    name: "servemesh_load_ignored_entries",
    help: "Entries of load reports that were above a limit and left out",
    registers,
    collect() {
      this.set(loads.ignoredCount);
    },
  });
}
