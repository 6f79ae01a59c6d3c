import { type DestinationStream, type Logger, pino } from "pino";

export type { Logger } from "pino";

/** Levels that `--log-level` takes. */
export const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Fields that may carry a secret. Nobody logs them on purpose; this is the net below. */
const SECRET_FIELDS = ["authorization", "token", "apiKey", "api_key", "key", "password"];

/** JSON lines on stderr, with whatever looks like a secret replaced. */
export function createLogger(level: LogLevel, destination: DestinationStream = stderr()): Logger {
  const paths = SECRET_FIELDS.flatMap((field) => [field, `*.${field}`]);
  return pino({ level, base: { part: "xds-server" }, redact: { paths, censor: "[redacted]" } }, destination);
}

function stderr(): DestinationStream {
  return pino.destination({ fd: 2, sync: true });
}
