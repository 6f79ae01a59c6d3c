#!/usr/bin/env node
import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";
import { CommanderError } from "commander";
import { type Config, createCommand, readConfig } from "./config.js";
import { createControlPlane } from "./control-plane.js";
import { formatAddress } from "./platform/address.js";
import { createLogger } from "./platform/logger.js";

/** Exit status: 0 after an orderly end, 1 when it cannot start or broke, 2 for a wrong command line. */
const FAILURE = 1;
const USAGE = 2;
/** Signals this close to the first are the same request. */
const SAME_SIGNAL_MS = 100;

/** The process of one control plane: flags in, signals to an orderly end. */
async function main(): Promise<void> {
  // grpc-js writes its own lines to stderr; what matters of them reaches our log as errors of calls.
  setLogVerbosity(logVerbosity.NONE);
  const { options, logLevel } = config();
  const logger = createLogger(logLevel);
  process.on("uncaughtException", (error) => {
    // State may be broken: the runner starts a clean process, and Envoys keep what they have meanwhile.
    logger.fatal({ err: error }, "bug: uncaught exception");
    process.exit(FAILURE);
  });
  const controlPlane = await createControlPlane(options, { logger });
  let askedAtMs: number | undefined;
  const stop = (signal: NodeJS.Signals): void => {
    const nowMs = performance.now();
    if (askedAtMs !== undefined) {
      // A runner that signals the group and the process means it once.
      if (nowMs - askedAtMs > SAME_SIGNAL_MS) process.exit(FAILURE);
      return;
    }
    askedAtMs = nowMs;
    logger.info({ signal }, "stopping");
    controlPlane.close().then(
      () => process.exit(0),
      (error: unknown) => {
        logger.error({ err: error }, "the end was not orderly");
        process.exit(FAILURE);
      },
    );
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  const { adsAddress, adminAddress, healthPort } = controlPlane;
  const health = formatAddress({ host: options.health.host, port: healthPort });
  process.stdout.write(`${JSON.stringify({ ads: adsAddress, admin: adminAddress, health })}\n`);
}

function config(): Config {
  try {
    return readConfig(createCommand(), process.argv.slice(2));
  } catch (error) {
    // Commander has printed its line already; --help and --version are no failure.
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : USAGE);
    throw error;
  }
}

main().catch((error: unknown) => {
  process.stderr.write(`servemesh-control-plane: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(FAILURE);
});
