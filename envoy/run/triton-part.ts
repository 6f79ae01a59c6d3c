import { copyFileSync, mkdirSync } from "node:fs";
import { basename, delimiter, join } from "node:path";
import type { PythonBackend, TritonInstallation } from "./binaries.js";
import { logFile, loopbackAddress, type MeshContext } from "./mesh-context.js";
import type { TrainedVersion } from "./model-manifest.js";
import { createPart, type Part } from "./part.js";
import type { ReplicaPorts } from "./ports.js";
import { answersOk } from "./probes.js";
import { sharedMemoryPrefix } from "./run-mark.js";

/**
 * Puts the python backend's parts into one folder, as Triton wants them.
 * @returns the folder for `--backend-directory`
 */
export function layOutBackends(context: MeshContext, backend: PythonBackend): string {
  const folder = join(context.folder, "backends");
  mkdirSync(join(folder, "python"), { recursive: true });
  for (const file of backend.files) copyFileSync(file, join(folder, "python", basename(file)));
  return folder;
}

/** One Triton that serves one version and nothing else; its own batching is off. */
export function createTritonPart(
  context: MeshContext,
  installation: TritonInstallation,
  replica: { readonly id: string; readonly ports: ReplicaPorts; readonly version: TrainedVersion },
): Part {
  const { id, ports, version } = replica;
  return createPart({
    process: {
      name: `Triton ${id}`,
      command: [
        installation.binary,
        ...backendFlags(context, installation),
        `--backend-config=python,shm-region-prefix-name=${sharedMemoryPrefix(context.watchdog.mark)}-${id}`,
        "--backend-config=python,stub-timeout-seconds=60",
        `--model-repository=${version.repository}`,
        ...["--model-control-mode=explicit", `--load-model=${version.model}`],
        // A model that fails to load is loaded again by the batcher; the server must be there for that.
        "--exit-on-error=false",
        "--exit-timeout-secs=3",
        ...["--grpc-address=127.0.0.1", `--grpc-port=${ports.tritonGrpc}`],
        ...["--http-address=127.0.0.1", `--http-port=${ports.tritonHttp}`],
        ...["--metrics-address=127.0.0.1", `--metrics-port=${ports.tritonMetrics}`],
        "--allow-gpu-metrics=false",
      ],
      environment: { ...context.watchdog.environment, ...pythonEnvironment(installation.pythonBackend) },
      logFile: logFile(context, `triton-${id}`),
    },
    isReady: () =>
      answersOk(
        `http://${loopbackAddress(ports.tritonHttp)}/v2/models/${version.model}/versions/${version.version}/ready`,
      ),
    readyTimeoutMs: 60_000,
    stopGraceMs: 6_000,
    abort: context.abort,
  });
}

function backendFlags(context: MeshContext, { pythonBackend }: TritonInstallation): string[] {
  return pythonBackend === undefined ? [] : [`--backend-directory=${layOutBackends(context, pythonBackend)}`];
}

function pythonEnvironment(backend: PythonBackend | undefined): Record<string, string> {
  if (backend === undefined) return {};
  const libraries = [...backend.libraryFolders, process.env.LD_LIBRARY_PATH ?? ""].filter((folder) => folder !== "");
  return {
    PATH: `${backend.pythonFolder}${delimiter}${process.env.PATH ?? ""}`,
    LD_LIBRARY_PATH: libraries.join(delimiter),
    // Model folders are digested artifacts; compiled files must not appear in them.
    PYTHONDONTWRITEBYTECODE: "1",
  };
}
