import { createServer } from "node:net";
import { RunError } from "./run-error.js";

/** Ports of one replica: its batcher and its Triton. */
export interface ReplicaPorts {
  readonly batcher: number;
  readonly batcherHealth: number;
  readonly tritonGrpc: number;
  readonly tritonHttp: number;
  readonly tritonMetrics: number;
}

/** Every port that a local mesh listens on; all on 127.0.0.1. */
export interface PortPlan {
  readonly http: number;
  readonly https: number;
  readonly envoyAdmin: number;
  /** ADS for Envoy and ReplicaService for batchers. */
  readonly controlPlane: number;
  readonly admin: number;
  readonly controlPlaneHealth: number;
  readonly replicas: readonly ReplicaPorts[];
}

/** Below it only root may listen. */
const MIN_PORT = 1024;
const MAX_PORT = 65_535;
/** With a base port the replicas start this far above it. */
const REPLICAS_OFFSET = 10;
const REPLICA_STEP = 10;

/**
 * The ports of a mesh: the well-known ones, or all of them counted up from `basePort`.
 * @throws RunError when a base port leaves no room
 */
export function planPorts(replicaCount: number, basePort?: number): PortPlan {
  const replicas = (first: number): ReplicaPorts[] =>
    Array.from({ length: replicaCount }, (_, index) => replicaPorts(first + index * REPLICA_STEP));
  if (basePort === undefined) {
    return {
      ...{ http: 8080, https: 8443, envoyAdmin: 9901, controlPlane: 18_000, admin: 18_001, controlPlaneHealth: 18_002 },
      replicas: replicas(19_000),
    };
  }
  const highest = MAX_PORT - (REPLICAS_OFFSET + replicaCount * REPLICA_STEP - 1);
  if (!Number.isInteger(basePort) || basePort < MIN_PORT || basePort > highest) {
    throw new RunError(`--base-port: ${basePort} must be a whole number from ${MIN_PORT} to ${highest}`);
  }
  return {
    http: basePort,
    https: basePort + 1,
    envoyAdmin: basePort + 2,
    controlPlane: basePort + 3,
    admin: basePort + 4,
    controlPlaneHealth: basePort + 5,
    replicas: replicas(basePort + REPLICAS_OFFSET),
  };
}

function replicaPorts(first: number): ReplicaPorts {
  return {
    batcher: first,
    batcherHealth: first + 1,
    tritonGrpc: first + 2,
    tritonHttp: first + 3,
    tritonMetrics: first + 4,
  };
}

/** Each port with what listens there, for messages. */
export function listPorts(plan: PortPlan): { port: number; purpose: string }[] {
  const shared = [
    { port: plan.http, purpose: "Envoy, HTTP" },
    { port: plan.https, purpose: "Envoy, TLS" },
    { port: plan.envoyAdmin, purpose: "Envoy's admin interface" },
    { port: plan.controlPlane, purpose: "the control plane's ADS" },
    { port: plan.admin, purpose: "the control plane's admin interface" },
    { port: plan.controlPlaneHealth, purpose: "the control plane's health" },
  ];
  const perReplica = plan.replicas.flatMap((ports, index) => [
    { port: ports.batcher, purpose: `batcher ${index}` },
    { port: ports.batcherHealth, purpose: `batcher ${index}, health` },
    { port: ports.tritonGrpc, purpose: `Triton ${index}, gRPC` },
    { port: ports.tritonHttp, purpose: `Triton ${index}, HTTP` },
    { port: ports.tritonMetrics, purpose: `Triton ${index}, metrics` },
  ]);
  return [...shared, ...perReplica];
}

/**
 * Looks whether every port can be had, before anything starts.
 * @throws RunError that names the first taken port, what it is for and the flag that moves it
 */
export async function checkPortsFree(plan: PortPlan): Promise<void> {
  for (const { port, purpose } of listPorts(plan)) {
    const problem = await listenProblem(port);
    if (problem === undefined) continue;
    throw new RunError(
      `port ${port} (${purpose}) ${problem === "EADDRINUSE" ? "is taken" : `cannot be opened (${problem})`}; ` +
        "end what listens there, or move all ports with --base-port N",
    );
  }
}

/** Ports of 127.0.0.1 from which a whole mesh fits, for tests: the first free base from `from` on, in steps of 100. */
export async function findBasePort(replicaCount: number, from: number, to: number): Promise<number> {
  for (let base = from; base < to; base += 100) {
    const problems = await Promise.all(listPorts(planPorts(replicaCount, base)).map(({ port }) => listenProblem(port)));
    if (problems.every((problem) => problem === undefined)) return base;
  }
  throw new RunError(`no free block of ports for ${replicaCount} replicas between ${from} and ${to}`);
}

function listenProblem(port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}
