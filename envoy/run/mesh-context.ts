import { join } from "node:path";
import type { PortPlan } from "./ports.js";
import type { Watchdog } from "./watchdog.js";

/** What all parts of one mesh share. */
export interface MeshContext {
  /** Holds all files of the run: store, token, certificates, journal, logs; absolute. */
  readonly folder: string;
  readonly ports: PortPlan;
  readonly watchdog: Watchdog;
  readonly abort: AbortSignal | undefined;
}

/** `logs/<name>.log` in the run's folder. */
export function logFile(context: MeshContext, name: string): string {
  return join(context.folder, "logs", `${name}.log`);
}

export function loopbackAddress(port: number): string {
  return `127.0.0.1:${port}`;
}
