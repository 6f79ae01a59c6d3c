import { join } from "node:path";
import { logFile, loopbackAddress, type MeshContext } from "./mesh-context.js";
import { createPart, type Part } from "./part.js";
import { repositoryRoot } from "./paths.js";
import { answersOk } from "./probes.js";

const MAIN = join(repositoryRoot, "xds-server", "dist", "main.js");

/** Bearer token of the admin port, in the run's folder. */
export function tokenFile(context: MeshContext): string {
  return join(context.folder, "token");
}

export function createControlPlanePart(context: MeshContext): Part {
  const { ports } = context;
  return createPart({
    process: {
      name: "control plane",
      command: [
        process.execPath,
        MAIN,
        ...["--store", join(context.folder, "store"), "--token-file", tokenFile(context)],
        ...["--ads", loopbackAddress(ports.controlPlane), "--admin", loopbackAddress(ports.admin)],
        ...["--health", loopbackAddress(ports.controlPlaneHealth)],
        ...["--access-log", join(context.folder, "logs", "access.ndjson")],
        ...trustFlags(context),
      ],
      environment: context.watchdog.environment,
      logFile: logFile(context, "control-plane"),
    },
    isReady: () => answersOk(`http://${loopbackAddress(ports.controlPlaneHealth)}/readyz`),
    readyTimeoutMs: 30_000,
    stopGraceMs: 5_000,
    abort: context.abort,
  });
}

function trustFlags({ identities }: MeshContext): string[] {
  if (identities === undefined) return [];
  const { certificate, privateKey, authorities } = identities.controlPlane;
  return ["--tls-certificate", certificate, "--tls-key", privateKey, "--tls-client-ca", authorities];
}
