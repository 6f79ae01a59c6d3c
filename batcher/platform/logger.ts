import { type Logger, pino } from "pino";

export type { Logger } from "pino";

/** Levels that `--log-level` takes. */
export const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;

/** JSON lines on stderr. Request bodies, headers and keys are never logged. */
export function createLogger(level: (typeof LOG_LEVELS)[number], bindings: Record<string, string>): Logger {
  return pino({ level, base: bindings }, pino.destination({ fd: 2, sync: true }));
}
