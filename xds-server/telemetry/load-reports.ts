/** Calls of one cluster in one locality, as an Envoy reports them: what happened since the report before. */
export interface LocalityReport {
  /** `region/zone/sub_zone`; `//` where replicas have none. */
  readonly locality: string;
  readonly issued: number;
  readonly success: number;
  /**
   * Answers that Envoy counts as failed: those after which it tried another cluster, and gRPC statuses that mean a 5xx. A
   * refusal with status 8 that goes to the caller counts as success (seen with Envoy 1.40).
   */
  readonly error: number;
  /** Calls under way at the moment of the report. */
  readonly inProgress: number;
}

export interface ClusterReport {
  readonly cluster: string;
  /** Only localities where something happened. */
  readonly localities: readonly LocalityReport[];
}

/** Figures of calls, added up. */
export interface LoadSum {
  readonly issued: number;
  readonly success: number;
  readonly error: number;
  readonly inProgress: number;
  /**
   * Issued and never answered: deadlines and broken connections. Envoy counts these neither as success nor as error, so
   * `error` alone is blind to a replica that hangs.
   */
  readonly unfinished: number;
}

/** What one Envoy says of one cluster in one locality. */
export interface ReportedLoad {
  readonly nodeId: string;
  readonly cluster: string;
  readonly locality: string;
  /** Its latest report. */
  readonly last: LocalityReport;
  /** When that came, in ms of the control plane's monotonic clock. */
  readonly lastAtMs: number;
  /** All its reports. */
  readonly sum: LoadSum;
}

/** Where load reports go; one method per thing that happens on a stream. */
export interface LoadReportSink {
  /** @param nowMs on a monotonic clock */
  record(nodeId: string, reports: readonly ClusterReport[], nowMs: number): void;
  forget(nodeId: string): void;
}

/** Bounds per node, against made-up reports; far above a mesh of 5,000 models. */
export interface LoadLimits {
  readonly clustersMax: number;
  /** Of all its clusters together. */
  readonly localitiesMax: number;
  readonly nameMaxChars: number;
  /** How long a cluster is kept that the node's reports do not name any more. */
  readonly keepMs: number;
}

const LIMITS: LoadLimits = { clustersMax: 20_000, localitiesMax: 40_000, nameMaxChars: 512, keepMs: 60_000 };

interface Locality {
  issued: number;
  success: number;
  error: number;
  last: LocalityReport;
}

interface Cluster {
  lastAtMs: number;
  readonly localities: Map<string, Locality>;
}

interface Node {
  readonly clusters: Map<string, Cluster>;
  localityCount: number;
}

/** Sums of nodes that left, kept so that a cluster's sum never falls while somebody reports it. */
interface Retired {
  nodes: number;
  issued: number;
  success: number;
  error: number;
  unfinished: number;
}

/**
 * Load reports of all Envoys, added up per node, cluster and locality. No I/O and no clock of its own; controllers read it.
 */
export class LoadReports implements LoadReportSink {
  readonly #limits: LoadLimits;
  readonly #nodes = new Map<string, Node>();
  readonly #retired = new Map<string, Retired>();
  #ignoredCount = 0;

  constructor(limits: Partial<LoadLimits> = {}) {
    this.#limits = { ...LIMITS, ...limits };
  }

  /** Entries that were above a limit and therefore left out. */
  get ignoredCount(): number {
    return this.#ignoredCount;
  }

  record(nodeId: string, reports: readonly ClusterReport[], nowMs: number): void {
    const node = this.#nodes.get(nodeId) ?? { clusters: new Map<string, Cluster>(), localityCount: 0 };
    this.#nodes.set(nodeId, node);
    for (const report of reports) this.#recordCluster(node, report, nowMs);
    for (const [name, cluster] of node.clusters) {
      if (nowMs - cluster.lastAtMs > this.#limits.keepMs) this.#retire(node, name, cluster);
    }
  }

  forget(nodeId: string): void {
    const node = this.#nodes.get(nodeId);
    if (node === undefined) return;
    for (const [name, cluster] of node.clusters) this.#retire(node, name, cluster);
    this.#nodes.delete(nodeId);
  }

  /** Everything by node, cluster and locality, in the order of first reports. */
  loads(): ReportedLoad[] {
    const loads: ReportedLoad[] = [];
    for (const [nodeId, { clusters }] of this.#nodes) {
      for (const [cluster, { localities, lastAtMs }] of clusters) {
        for (const [locality, figures] of localities) {
          loads.push({ nodeId, cluster, locality, last: figures.last, lastAtMs, sum: sumOf(figures) });
        }
      }
    }
    return loads;
  }

  /** By cluster over all nodes and localities; also clusters without a call. Falls never, until nobody reports the cluster. */
  clusterSums(): Map<string, LoadSum> {
    const sums = new Map<string, LoadSum>();
    for (const [name, retired] of this.#retired) sums.set(name, { ...retiredSum(retired), inProgress: 0 });
    for (const { clusters } of this.#nodes.values()) {
      for (const [name, { localities }] of clusters) {
        for (const figures of localities.values()) {
          const before = sums.get(name);
          if (before !== undefined) sums.set(name, added(before, sumOf(figures)));
        }
      }
    }
    return sums;
  }

  #recordCluster(node: Node, report: ClusterReport, nowMs: number): void {
    const { clustersMax, localitiesMax, nameMaxChars } = this.#limits;
    const { clusters } = node;
    let cluster = clusters.get(report.cluster);
    if (cluster === undefined) {
      if (clusters.size >= clustersMax || report.cluster === "" || report.cluster.length > nameMaxChars) {
        this.#ignoredCount += 1;
        return;
      }
      cluster = { lastAtMs: nowMs, localities: new Map() };
      clusters.set(report.cluster, cluster);
      this.#retiredOf(report.cluster).nodes += 1;
    }
    cluster.lastAtMs = nowMs;
    // A locality that a report leaves out had nothing to tell, and nothing under way.
    for (const [locality, figures] of cluster.localities) figures.last = nothingIn(locality);
    for (const entry of report.localities) {
      let figures = cluster.localities.get(entry.locality);
      if (figures === undefined) {
        if (node.localityCount >= localitiesMax || entry.locality.length > nameMaxChars) {
          this.#ignoredCount += 1;
          continue;
        }
        figures = { issued: 0, success: 0, error: 0, last: nothingIn(entry.locality) };
        cluster.localities.set(entry.locality, figures);
        node.localityCount += 1;
      }
      figures.issued += entry.issued;
      figures.success += entry.success;
      figures.error += entry.error;
      // Several entries of one locality differ in their priority only.
      figures.last = together(figures.last, entry);
    }
  }

  #retiredOf(name: string): Retired {
    const retired = this.#retired.get(name) ?? { nodes: 0, issued: 0, success: 0, error: 0, unfinished: 0 };
    this.#retired.set(name, retired);
    return retired;
  }

  #retire(node: Node, name: string, { localities }: Cluster): void {
    node.clusters.delete(name);
    node.localityCount -= localities.size;
    const retired = this.#retiredOf(name);
    retired.nodes -= 1;
    for (const figures of localities.values()) {
      const sum = sumOf(figures);
      retired.issued += sum.issued;
      retired.success += sum.success;
      retired.error += sum.error;
      retired.unfinished += sum.unfinished;
    }
    if (retired.nodes === 0) this.#retired.delete(name);
  }
}

function nothingIn(locality: string): LocalityReport {
  return { locality, issued: 0, success: 0, error: 0, inProgress: 0 };
}

function together(a: LocalityReport, b: LocalityReport): LocalityReport {
  return {
    locality: a.locality,
    issued: a.issued + b.issued,
    success: a.success + b.success,
    error: a.error + b.error,
    inProgress: a.inProgress + b.inProgress,
  };
}

function sumOf({ issued, success, error, last }: Locality): LoadSum {
  const { inProgress } = last;
  // Calls issued before the stream began end on it, so the difference may be below 0 for a while.
  return { issued, success, error, inProgress, unfinished: Math.max(0, issued - success - error - inProgress) };
}

function retiredSum({ issued, success, error, unfinished }: Retired): Omit<LoadSum, "inProgress"> {
  return { issued, success, error, unfinished };
}

function added(a: LoadSum, b: LoadSum): LoadSum {
  return {
    issued: a.issued + b.issued,
    success: a.success + b.success,
    error: a.error + b.error,
    inProgress: a.inProgress + b.inProgress,
    unfinished: a.unfinished + b.unfinished,
  };
}
