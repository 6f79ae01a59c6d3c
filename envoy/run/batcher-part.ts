import { join } from "node:path";
import { logFile, loopbackAddress, type MeshContext } from "./mesh-context.js";
import type { TrainedVersion } from "./model-manifest.js";
import { createPart, type Part } from "./part.js";
import { repositoryRoot } from "./paths.js";
import type { ReplicaPorts } from "./ports.js";
import { answersOk } from "./probes.js";
import { RunError } from "./run-error.js";

const MAIN = join(repositoryRoot, "batcher", "dist", "main.js");

/** Holds `<replica id>/*.ndjson`. */
export function journalFolder(context: MeshContext): string {
  return join(context.folder, "journal");
}

/** The sidecar of one Triton. Ready when the control plane has assigned its version and one inference went through. */
export function createBatcherPart(
  context: MeshContext,
  replica: {
    readonly id: string;
    readonly ports: ReplicaPorts;
    readonly version: TrainedVersion;
    readonly featuresFolder: string;
    readonly flags: readonly string[];
  },
): Part {
  const { id, ports, version } = replica;
  return createPart({
    process: {
      name: `batcher ${id}`,
      command: [
        process.execPath,
        // Request buffers die young; a larger nursery keeps them out of the slow collector. Node's code on large pages
        // saves a tenth of a call's CPU at low rates, where caches are cold; where the kernel has none, nothing happens.
        ...["--max-semi-space-size=32", "--use-largepages=silent"],
        MAIN,
        ...["--model", version.model, "--version", version.version.toString(), "--replica-id", id],
        ...["--listen", loopbackAddress(ports.batcher), "--health", loopbackAddress(ports.batcherHealth)],
        ...["--triton", loopbackAddress(ports.tritonGrpc)],
        ...["--control-plane", loopbackAddress(context.ports.controlPlane)],
        ...["--journal-dir", journalFolder(context), "--features-dir", replica.featuresFolder],
        ...trustFlags(context, version.model),
        ...replica.flags,
      ],
      environment: context.watchdog.environment,
      logFile: logFile(context, `batcher-${id}`),
    },
    isReady: () => answersOk(`http://${loopbackAddress(ports.batcherHealth)}/readyz`),
    readyTimeoutMs: 60_000,
    // It drains for up to 10.5 s; requests that hang longer are not waited for.
    stopGraceMs: 12_000,
    abort: context.abort,
  });
}

function trustFlags({ identities }: MeshContext, model: string): string[] {
  if (identities === undefined) return [];
  const files = identities.batchers[model];
  if (files === undefined) throw new RunError(`the mesh's identities have none for batchers of ${model}`);
  return ["--tls-certificate", files.certificate, "--tls-key", files.privateKey, "--tls-ca", files.authorities];
}
