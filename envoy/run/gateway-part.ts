import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createBootstrap } from "./bootstrap.js";
import { type SecretFiles, writeMeshSecrets } from "./bootstrap-tls.js";
import { logFile, loopbackAddress, type MeshContext } from "./mesh-context.js";
import { createPart, type Part } from "./part.js";
import { answersOk } from "./probes.js";

/** Node id of the mesh's Envoy. */
export const GATEWAY_NODE_ID = "gateway-1";

export interface GatewayOptions {
  readonly binary: string;
  /** Envoy's worker threads. */
  readonly workers: number;
}

/**
 * The Envoy. Ready when its door answers that the mesh is ready, so the listener, the gate, the routes and a batcher are.
 * The command line suits several Envoys on one machine and a log that is read while it is written.
 */
export function createGatewayPart(context: MeshContext, { binary, workers }: GatewayOptions): Part {
  const { ports } = context;
  const bootstrapFile = join(context.folder, "bootstrap.json");
  const bootstrap = createBootstrap({
    nodeId: GATEWAY_NODE_ID,
    adminPort: ports.envoyAdmin,
    controlPlane: { host: "127.0.0.1", port: ports.controlPlane },
    ...secretsOf(context),
  });
  writeFileSync(bootstrapFile, `${JSON.stringify(bootstrap, null, 2)}\n`);
  return createPart({
    process: {
      name: "Envoy",
      command: [
        binary,
        ...["--config-path", bootstrapFile, "--disable-hot-restart", "--concurrency", String(workers)],
        ...["--log-level", "warning", "--file-flush-interval-msec", "100"],
      ],
      environment: context.watchdog.environment,
      logFile: logFile(context, "envoy"),
    },
    isReady: () => answersOk(`http://${loopbackAddress(ports.http)}/v2/health/ready`),
    readyTimeoutMs: 60_000,
    stopGraceMs: 3_000,
    abort: context.abort,
  });
}

function secretsOf({ folder, identities }: MeshContext): { readonly secretFiles?: SecretFiles } {
  if (identities === undefined) return {};
  return { secretFiles: writeMeshSecrets(folder, identities.gateway, identities.trustDomain) };
}
