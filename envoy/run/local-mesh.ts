import { mkdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ReplicaState } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { type AdminClient, createAdminClient, readToken } from "@servemesh/xds-server";
import { createBatcherPart, journalFolder } from "./batcher-part.js";
import { findEnvoy, findTriton, type TritonInstallation } from "./binaries.js";
import { type CertificateFiles, provideCertificates } from "./certificates.js";
import { createControlPlanePart, tokenFile } from "./control-plane-part.js";
import { createGatewayPart } from "./gateway-part.js";
import { DEMO_CONTENTS, type MeshContents } from "./mesh-contents.js";
import { loopbackAddress, type MeshContext, type MeshIdentities } from "./mesh-context.js";
import { findVersion, type ModelManifest, readModelManifest } from "./model-manifest.js";
import type { Part } from "./part.js";
import { checkPortsFree, type PortPlan, planPorts } from "./ports.js";
import { registerContents, registerGateway } from "./registration.js";
import { RunError } from "./run-error.js";
import { createTritonPart } from "./triton-part.js";
import { startWatchdog } from "./watchdog.js";

export interface LocalMeshOptions {
  /** Folder for everything the run writes. An older run's registry and journal in it are removed, certificates kept. */
  readonly folder: string;
  /** Moves all ports; the well-known ones when absent. */
  readonly basePort?: number | undefined;
  /** What to register and start; the demo's when absent. */
  readonly contents?: MeshContents;
  /** Largest request body of every door; 4 MiB when absent. */
  readonly maxRequestBytes?: number;
  /** Further flags of every batcher. */
  readonly batcherFlags?: readonly string[];
  /** Envoy's worker threads; 2 when absent. */
  readonly workers?: number;
  /** Mutual TLS between the parts; plain text when absent. */
  readonly identities?: MeshIdentities;
  /** Gives the start up; what was started is ended. */
  readonly abort?: AbortSignal;
  /** Told what has been reached, one line each. */
  readonly onProgress?: (line: string) => void;
}

/** A batcher with its Triton. */
export interface ReplicaHandle {
  /** `ranker-41`, or `ranker-41-2` for the second of a version; names its journal folder and its logs. */
  readonly id: string;
  /** `ranker:41` */
  readonly version: string;
  readonly batcher: Part;
  readonly triton: Part;
  /** host:port of the batcher's doors. */
  readonly batcherAddress: string;
  /** host:port of Triton's gRPC. */
  readonly tritonAddress: string;
  /** Base URL of the batcher's /livez, /readyz and /metrics. */
  readonly batcherHealthUrl: string;
}

/** A running mesh. */
export interface LocalMesh {
  readonly folder: string;
  readonly ports: PortPlan;
  /** `http://127.0.0.1:8080` */
  readonly httpUrl: string;
  /** `https://127.0.0.1:8443` */
  readonly httpsUrl: string;
  /** host:port of the gRPC door, plain text: the same as HTTP's. */
  readonly grpcAddress: string;
  readonly envoyAdminUrl: string;
  readonly certificates: CertificateFiles;
  /** Key of the tenant `demo`, which may call every model. */
  readonly apiKey: string;
  readonly admin: AdminClient;
  readonly adminAddress: string;
  readonly tokenFile: string;
  readonly journalFolder: string;
  readonly controlPlane: Part;
  readonly gateway: Part;
  readonly replicas: readonly ReplicaHandle[];
  /** Waits until every replica that runs is an endpoint. @throws RunError after `timeoutMs` */
  waitReplicasReady(timeoutMs: number): Promise<void>;
  /** Ends everything in order, then kills what is left. */
  stop(): Promise<void>;
}

const REPLICAS_READY_TIMEOUT_MS = 60_000;
const POLL_MS = 50;

/** The processes of a mesh by what they do. */
interface MeshParts {
  readonly controlPlane: Part;
  readonly gateway: Part;
  readonly replicas: readonly ReplicaHandle[];
}

/**
 * Starts a whole mesh on this machine: control plane, a batcher and a Triton per replica, Envoy. Every process ends with
 * this one, however it ends.
 * @throws RunError with one sentence when something is missing, a port is taken or a part does not come up
 */
export async function startLocalMesh(options: LocalMeshOptions): Promise<LocalMesh> {
  const contents = options.contents ?? DEMO_CONTENTS;
  const manifest = readModelManifest();
  const binaries = { envoy: findEnvoy(), triton: findTriton() };
  const ports = planPorts(contents.replicas.length, options.basePort);
  await checkPortsFree(ports);
  const folder = resolve(options.folder);
  clearFolder(folder);
  const context: MeshContext = {
    folder,
    ports,
    watchdog: startWatchdog(),
    abort: options.abort,
    identities: options.identities,
  };
  const parts: MeshParts = {
    controlPlane: createControlPlanePart(context),
    gateway: createGatewayPart(context, { binary: binaries.envoy, workers: options.workers ?? 2 }),
    replicas: contents.replicas.map((_, index) =>
      createReplica(context, binaries.triton, manifest, contents.replicas, index, options.batcherFlags ?? []),
    ),
  };
  try {
    return await bringUp(context, parts, contents, manifest, options);
  } catch (error) {
    await stopAll(context, parts);
    if (options.abort?.aborted === true) throw new RunError("interrupted while the mesh was starting");
    throw error;
  }
}

async function bringUp(
  context: MeshContext,
  parts: MeshParts,
  contents: MeshContents,
  manifest: ModelManifest,
  options: LocalMeshOptions,
): Promise<LocalMesh> {
  const { ports, folder } = context;
  const say = options.onProgress ?? (() => {});
  const certificates = await provideCertificates(join(folder, "certificates"), Date.now());
  await parts.controlPlane.start();
  const admin = createAdminClient({
    address: loopbackAddress(ports.admin),
    token: readToken(tokenFile(context)),
  });
  say("control plane is up");
  const apiKey = await registerContents(admin, contents, manifest);
  await registerGateway(admin, context, certificates, options.maxRequestBytes);
  say(`${contents.versions.length} versions of ${contents.models.length} models registered`);
  await startReplicas(parts.replicas, say);
  const waitReplicasReady = (timeoutMs: number): Promise<void> =>
    waitForEndpoints(admin, parts.replicas, timeoutMs, options.abort);
  // Before Envoy, so that its first routes are complete.
  await waitReplicasReady(REPLICAS_READY_TIMEOUT_MS);
  await parts.gateway.start();
  say(`Envoy is ready on ${loopbackAddress(ports.http)} and, with TLS, ${loopbackAddress(ports.https)}`);
  return {
    folder,
    ports,
    httpUrl: `http://${loopbackAddress(ports.http)}`,
    httpsUrl: `https://${loopbackAddress(ports.https)}`,
    grpcAddress: loopbackAddress(ports.http),
    envoyAdminUrl: `http://${loopbackAddress(ports.envoyAdmin)}`,
    certificates,
    apiKey,
    admin,
    adminAddress: loopbackAddress(ports.admin),
    tokenFile: tokenFile(context),
    journalFolder: journalFolder(context),
    ...parts,
    waitReplicasReady,
    stop: async () => {
      admin.close();
      await stopAll(context, parts);
    },
  };
}

/** What an earlier run left; certificates and the token may stay. */
function clearFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const name of ["store", "journal", "logs"]) rmSync(join(folder, name), { recursive: true, force: true });
  mkdirSync(join(folder, "logs"));
}

function createReplica(
  context: MeshContext,
  triton: TritonInstallation,
  manifest: ModelManifest,
  references: readonly string[],
  index: number,
  flags: readonly string[],
): ReplicaHandle {
  const ports = context.ports.replicas[index];
  const reference = references[index];
  if (ports === undefined || reference === undefined) throw new Error(`bug: no ports for replica ${index}`);
  const version = findVersion(manifest, reference);
  const earlier = references.slice(0, index).filter((other) => other === reference).length;
  const id = `${version.model}-${version.version}${earlier === 0 ? "" : `-${earlier + 1}`}`;
  return {
    id,
    version: reference,
    triton: createTritonPart(context, triton, { id, ports, version }),
    batcher: createBatcherPart(context, { id, ports, version, featuresFolder: manifest.featuresFolder, flags }),
    batcherAddress: loopbackAddress(ports.batcher),
    tritonAddress: loopbackAddress(ports.tritonGrpc),
    batcherHealthUrl: `http://${loopbackAddress(ports.batcherHealth)}`,
  };
}

/** All at the same time: most of a Triton's start is waiting. A failure is told only when no other start is under way. */
async function startReplicas(replicas: readonly ReplicaHandle[], say: (line: string) => void): Promise<void> {
  const starts = await Promise.allSettled(
    replicas.map(async ({ id, triton, batcher }) => {
      await triton.start();
      await batcher.start();
      say(`replica ${id} is ready (batcher and Triton)`);
    }),
  );
  for (const start of starts) if (start.status === "rejected") throw start.reason;
}

async function waitForEndpoints(
  admin: AdminClient,
  replicas: readonly ReplicaHandle[],
  timeoutMs: number,
  abort: AbortSignal | undefined,
): Promise<void> {
  const stopAtMs = performance.now() + timeoutMs;
  for (;;) {
    abort?.throwIfAborted();
    const status = await admin.getStatus();
    const ready = new Set(
      status.replicas.filter(({ state }) => state === ReplicaState.REPLICA_STATE_READY).map(({ id }) => id),
    );
    const missing = replicas.filter(({ id, batcher }) => batcher.running && !ready.has(id));
    if (missing.length === 0) return;
    if (performance.now() > stopAtMs) {
      const names = missing.map(({ id }) => id).join(", ");
      throw new RunError(
        `the control plane does not see these replicas as ready after ${timeoutMs / 1000} s: ${names}`,
      );
    }
    await sleep(POLL_MS);
  }
}

/** First those that take requests, last the one that all others talk to; at the end whatever is left. */
async function stopAll({ watchdog }: MeshContext, { controlPlane, gateway, replicas }: MeshParts): Promise<void> {
  await gateway.stop();
  await Promise.all(replicas.map(({ batcher }) => batcher.stop()));
  // Its batcher has drained and it keeps nothing, so there is no reason to wait the seconds that an orderly end takes.
  await Promise.all(replicas.map(({ triton }) => triton.kill()));
  await controlPlane.stop();
  await watchdog.close();
}
