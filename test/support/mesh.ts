import { join } from "node:path";
import type { ChannelOptions } from "@grpc/grpc-js";
import {
  ackedRoutes,
  findBasePort,
  findPair,
  type JournalPair,
  type LocalMesh,
  type MeshContents,
  type MeshIdentities,
  pollJournal,
  repositoryRoot,
  type ServingOverrides,
  startLocalMesh,
  waitRoutesAcked,
} from "@servemesh/envoy";
import { H_API_KEY } from "@servemesh/proto/names";
import { eventually } from "./eventually.js";
import { GrpcClient } from "./grpc-client.js";
import { RestClient } from "./rest-client.js";

/** Weights by version, as in `{ 41: 95, 42: 5 }`. */
export type Split = Readonly<Record<number, number>>;

export interface TestMeshOptions {
  /** A batcher and a Triton each; a version may stand here twice. All versions named here are registered. */
  readonly replicas: readonly string[];
  /** Those whose stage is `staging`, as a canary's and a shadow's may be; the others are in `production`. */
  readonly staging?: readonly string[];
  /** Of `ranker@prod`; all to v41 when absent. */
  readonly split?: Split;
  /** Version that `ranker@prod` is mirrored to. */
  readonly shadow?: number;
  readonly fallback?: readonly string[];
  readonly maxRequestBytes?: number;
  /** Mutual TLS between the parts. */
  readonly identities?: MeshIdentities;
  /** Of every version. */
  readonly serving?: ServingOverrides;
}

/** A whole mesh of real parts, with what tests ask of it. */
export interface TestMesh {
  readonly mesh: LocalMesh;
  readonly httpAddress: string;
  readonly apiKey: string;
  /** Clients with the tenant's key; close them. */
  rest(): RestClient;
  grpc(options?: ChannelOptions): GrpcClient;
  /** Moves `ranker@prod` and waits until Envoy has acknowledged other routes; gives the time of that. */
  moveSplit(split: Split): Promise<{ readonly askedMs: number; readonly ackedMs: number }>;
  /** Waits until Envoy has acknowledged all that it was sent. */
  settled(): Promise<void>;
  /** Both legs of a mirrored request, which the batchers write behind the answers. */
  journalPair(requestId: string): Promise<JournalPair>;
  stop(): Promise<void>;
}

const FIRST_PORT = 20_000;
const LAST_PORT = 32_000;
const ACK_TIMEOUT_MS = 10_000;
const PAIR_TIMEOUT_MS = 10_000;
const DEADLINE_MS = 2_000;

/** Starts a mesh below var/test, on ports of its own. `name` tells runs apart. */
export async function startTestMesh(name: string, options: TestMeshOptions): Promise<TestMesh> {
  const contents = contentsOf(options);
  const basePort = await findBasePort(contents.replicas.length, FIRST_PORT, LAST_PORT);
  const mesh = await startLocalMesh({
    folder: join(repositoryRoot, "var/test", name),
    basePort,
    contents,
    ...(options.maxRequestBytes !== undefined && { maxRequestBytes: options.maxRequestBytes }),
    ...(options.identities !== undefined && { identities: options.identities }),
  });
  const settled = async (): Promise<void> => {
    await eventually("Envoy acknowledges everything", async () => (await allAcked(mesh)) || undefined, {
      timeoutMs: ACK_TIMEOUT_MS,
    });
  };
  await settled();
  return {
    mesh,
    httpAddress: mesh.grpcAddress,
    apiKey: mesh.apiKey,
    rest: () => new RestClient(mesh.grpcAddress, { [H_API_KEY]: mesh.apiKey }),
    grpc: (channel) => new GrpcClient(mesh.grpcAddress, { [H_API_KEY]: mesh.apiKey }, channel),
    moveSplit: async (split) => {
      const before = await ackedRoutes(mesh.admin);
      const askedMs = performance.now();
      await mesh.admin.setAlias({ alias: rankerAlias({ ...options, split }), expectedRevision: -1n });
      if ((await waitRoutesAcked(mesh.admin, before, ACK_TIMEOUT_MS)) === undefined) {
        throw new Error(`Envoy did not acknowledge the routes of the new split within ${ACK_TIMEOUT_MS} ms`);
      }
      return { askedMs, ackedMs: performance.now() };
    },
    settled,
    journalPair: async (requestId) => {
      const pair = await pollJournal(mesh.journalFolder, PAIR_TIMEOUT_MS, (records) => findPair(records, requestId));
      if (pair === undefined)
        throw new Error(`the journal has no pair of request ${requestId} after ${PAIR_TIMEOUT_MS} ms`);
      return pair;
    },
    stop: () => mesh.stop(),
  };
}

async function allAcked(mesh: LocalMesh): Promise<boolean> {
  const { nodes } = await mesh.admin.getStatus();
  const types = nodes.flatMap((node) => node.types);
  return types.length > 0 && types.every(({ sentVersion, ackedVersion }) => sentVersion === ackedVersion);
}

function contentsOf(options: TestMeshOptions): MeshContents {
  const references = [...new Set(options.replicas)];
  const models = [...new Set(references.map((reference) => reference.split(":")[0] as string))];
  return {
    models: models.map((name) => ({ name, deadlineMs: DEADLINE_MS })),
    versions: references.map((reference) => ({
      reference,
      stage: options.staging?.includes(reference) ? "staging" : "production",
      serving: options.serving ?? {},
    })),
    aliases: models.map((model) =>
      model === "ranker"
        ? rankerAlias(options)
        : { model, alias: "prod", split: [{ version: versionOf(references, model), weight: 1 }] },
    ),
    replicas: options.replicas,
  };
}

function rankerAlias({ split = { 41: 100 }, shadow, fallback = [] }: TestMeshOptions): MeshContents["aliases"][number] {
  return {
    model: "ranker",
    alias: "prod",
    split: Object.entries(split).map(([version, weight]) => ({ version: BigInt(version), weight })),
    fallback: [...fallback],
    ...(shadow !== undefined && { shadow: { version: BigInt(shadow), sample: 1 } }),
  };
}

function versionOf(references: readonly string[], model: string): bigint {
  const reference = references.find((candidate) => candidate.startsWith(`${model}:`));
  return BigInt(reference?.split(":")[1] ?? 0);
}
