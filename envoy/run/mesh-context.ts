import { join } from "node:path";
import type { IdentityFiles } from "./bootstrap-tls.js";
import type { PortPlan } from "./ports.js";
import type { Watchdog } from "./watchdog.js";

/** What all parts of one mesh share. */
export interface MeshContext {
  /** Holds all files of the run: store, token, certificates, journal, logs; absolute. */
  readonly folder: string;
  readonly ports: PortPlan;
  readonly watchdog: Watchdog;
  readonly abort: AbortSignal | undefined;
  /** Plain text between the parts when absent. */
  readonly identities: MeshIdentities | undefined;
}

/** Absolute paths of what the parts prove themselves to each other with; replaced files are followed. */
export interface MeshIdentities {
  readonly trustDomain: string;
  readonly controlPlane: IdentityFiles;
  /** Of the Envoy, both towards the control plane and towards batchers. */
  readonly gateway: IdentityFiles;
  /** By model. */
  readonly batchers: Readonly<Record<string, IdentityFiles>>;
}

/** `logs/<name>.log` in the run's folder. */
export function logFile(context: MeshContext, name: string): string {
  return join(context.folder, "logs", `${name}.log`);
}

export function loopbackAddress(port: number): string {
  return `127.0.0.1:${port}`;
}
