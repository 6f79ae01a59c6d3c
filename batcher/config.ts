import { readFileSync } from "node:fs";
import { ModelVersion } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { Command, InvalidArgumentError } from "commander";
import { type Address, parseAddress, parseLoopbackAddress } from "./platform/address.js";
import { LOG_LEVELS } from "./platform/logger.js";
import type { SidecarLimits, SidecarOptions } from "./sidecar.js";

/** What the command line says. */
export interface Config {
  readonly sidecar: SidecarOptions;
  readonly logLevel: (typeof LOG_LEVELS)[number];
}

const MODEL_NAME = /^[a-z0-9][a-z0-9._-]{0,62}$/;
const VERSION = /^[1-9]\d{0,18}$/;
const REPLICA_ID = /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$/;
const MAX_INT64 = (1n << 63n) - 1n;

interface Flags {
  model?: string;
  version?: string;
  listen: string;
  advertise?: string;
  triton: string;
  controlPlane?: string;
  spec?: string;
  journalDir?: string;
  featuresDir?: string;
  health?: string;
  tlsCertificate?: string;
  tlsKey?: string;
  tlsCa?: string;
  replicaId?: string;
  logLevel: string;
  maxQueueBytes?: number;
  maxRequestBytes?: number;
  maxJournalFileBytes?: number;
  maxUpstreamMs?: number;
  drainGraceMs?: number;
  drainMs?: number;
}

/** The command; `--help` and a wrong flag end the process with one clear text. */
export function createCommand(): Command {
  return new Command("servemesh-batcher")
    .description("Sidecar of one model server: turns single predict calls into batches.")
    .option("--model <name>", "model served here; with --spec the record's")
    .option("--version <number>", "its version; with --spec the record's")
    .requiredOption("--listen <host:port>", "doors: KServe v2 gRPC and the REST forms; port 0 takes any")
    .option("--advertise <host:port>", "address told to the control plane; default: the bound one")
    .requiredOption("--triton <host:port>", "gRPC endpoint of the model server")
    .option("--control-plane <host:port>", "ReplicaService of the control plane")
    .option(
      "--spec <file>",
      "serve this record (proto3 JSON of servemesh.registry.v1.ModelVersion) without a control plane",
    )
    .option("--journal-dir <dir>", "write mirrored requests to <dir>/<replica id>/*.ndjson")
    .option("--features-dir <dir>", "embedded feature store, opened read-only")
    .option("--health <host:port>", "/livez, /readyz and /metrics")
    .option("--tls-certificate <file>", "mutual TLS: own certificate, for spiffe://<trust domain>/batcher/<model>")
    .option("--tls-key <file>", "its private key")
    .option("--tls-ca <file>", "issuers of the certificates of gateways and of the control plane")
    .option("--replica-id <id>", "unique in the mesh; default <model>-<version>-<pid>")
    .option("--log-level <level>", LOG_LEVELS.join(", "), "info")
    .option("--max-queue-bytes <n>", "tensor bytes that may wait", positiveInteger)
    .option("--max-request-bytes <n>", "bytes of one request", positiveInteger)
    .option("--max-journal-file-bytes <n>", "bytes of this process's journal file", positiveInteger)
    .option("--max-upstream-ms <n>", "limit of a batch without deadlines", positiveInteger)
    .option("--drain-grace-ms <n>", "how long a leaving endpoint still takes requests", positiveInteger)
    .option("--drain-ms <n>", "how long the last requests may take", positiveInteger)
    .allowExcessArguments(false);
}

function positiveInteger(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < 1) {
    throw new InvalidArgumentError("it must be a positive whole number");
  }
  return value;
}

/**
 * Reads the command line.
 * @param pid part of the default replica id
 * @throws Error with one sentence that names the flag
 */
export function readConfig(command: Command, pid: number): Config {
  const flags = command.opts<Flags>();
  if ((flags.controlPlane === undefined) === (flags.spec === undefined)) {
    throw new Error("--control-plane, --spec: give exactly one of them");
  }
  const record = flags.spec === undefined ? undefined : readRecord(flags.spec);
  const model = flags.model ?? record?.model ?? "";
  if (!MODEL_NAME.test(model)) throw new Error(`--model: "${model}" is not a model name (${MODEL_NAME.source})`);
  const version = readVersion(flags.version ?? record?.version.toString() ?? "");
  if (record !== undefined && (record.model !== model || record.version !== version)) {
    throw new Error(`--spec: the record is for ${record.model}:${record.version}, the flags say ${model}:${version}`);
  }
  const replicaId = flags.replicaId ?? `${model}-${version}-${pid}`;
  if (!REPLICA_ID.test(replicaId)) throw new Error(`--replica-id: "${replicaId}" must match ${REPLICA_ID.source}`);
  const tls = readTls(flags);
  // Without TLS these connections are plain text, which never leaves the machine.
  const remedy = "; give --tls-certificate, --tls-key and --tls-ca for others";
  const meshAddress = (text: string, field: string): Address =>
    tls === undefined ? parseLoopbackAddress(text, field, remedy) : parseAddress(text, field);
  if (flags.advertise !== undefined) meshAddress(flags.advertise, "--advertise");
  const { controlPlane, health } = flags;
  return {
    logLevel: readLogLevel(flags.logLevel),
    sidecar: {
      model,
      version,
      replicaId,
      listen: meshAddress(flags.listen, "--listen"),
      advertise: flags.advertise,
      triton: parseLoopbackAddress(flags.triton, "--triton"),
      controlPlane: controlPlane === undefined ? undefined : meshAddress(controlPlane, "--control-plane"),
      record,
      journalDir: flags.journalDir,
      featuresDir: flags.featuresDir,
      health: health === undefined ? undefined : parseLoopbackAddress(health, "--health"),
      tls,
      limits: readLimits(flags),
    },
  };
}

function readTls({ tlsCertificate, tlsKey, tlsCa }: Flags): SidecarOptions["tls"] {
  if (tlsCertificate !== undefined && tlsKey !== undefined && tlsCa !== undefined) {
    return { certificate: tlsCertificate, privateKey: tlsKey, authorities: tlsCa };
  }
  if (tlsCertificate === undefined && tlsKey === undefined && tlsCa === undefined) return undefined;
  throw new Error("--tls-certificate, --tls-key, --tls-ca: give all three of them, or none for plain text on loopback");
}

function readLimits(flags: Flags): Partial<SidecarLimits> {
  return {
    ...(flags.maxQueueBytes === undefined ? {} : { maxWaitingBytes: flags.maxQueueBytes }),
    ...(flags.maxRequestBytes === undefined ? {} : { ingress: { maxRequestBytes: flags.maxRequestBytes } }),
    ...(flags.maxJournalFileBytes === undefined ? {} : { maxJournalFileBytes: flags.maxJournalFileBytes }),
    ...(flags.maxUpstreamMs === undefined ? {} : { maxUpstreamMs: flags.maxUpstreamMs }),
    ...(flags.drainGraceMs === undefined ? {} : { drainGraceMs: flags.drainGraceMs }),
    ...(flags.drainMs === undefined ? {} : { drainMs: flags.drainMs }),
  };
}

function readVersion(text: string): bigint {
  const version = VERSION.test(text) ? BigInt(text) : 0n;
  if (version < 1n || version > MAX_INT64)
    throw new Error(`--version: "${text}" is not a positive int64 without leading zeros`);
  return version;
}

function readLogLevel(text: string): (typeof LOG_LEVELS)[number] {
  const level = LOG_LEVELS.find((known) => known === text);
  if (level === undefined) throw new Error(`--log-level: "${text}" is not one of ${LOG_LEVELS.join(", ")}`);
  return level;
}

function readRecord(path: string): ModelVersion {
  try {
    return ModelVersion.fromJSON(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    throw new Error(`--spec: ${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
