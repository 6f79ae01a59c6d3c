#!/usr/bin/env node
import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";
import { loadTransform } from "@servemesh/wasm-filters";
import { createCommand, readConfig } from "./config.js";
import { createLogger } from "./platform/logger.js";
import { createSidecar } from "./sidecar.js";

/** The process of one batcher: flags in, signals to an orderly end, exit status 0 after it. */
async function main(): Promise<void> {
  // grpc-js writes its own lines to stderr; what matters of them reaches our log as errors of calls.
  setLogVerbosity(logVerbosity.NONE);
  const config = readConfig(createCommand().parse(process.argv), process.pid);
  const { model, version, replicaId } = config.sidecar;
  const logger = createLogger(config.logLevel, { replica: replicaId, version: `${model}:${version}` });
  process.on("uncaughtException", (error) => {
    // State may be broken: the endpoint leaves with the process, and the runner starts a clean one.
    logger.fatal({ err: error }, "bug: uncaught exception");
    process.exit(1);
  });
  const sidecar = await createSidecar(config.sidecar, { logger, loadTransform });
  let asked = false;
  const stop = (signal: NodeJS.Signals): void => {
    if (asked) process.exit(1);
    asked = true;
    void sidecar.drain(signal);
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  await sidecar.ended;
  process.exit(0);
}

main().catch((error: unknown) => {
  process.stderr.write(`servemesh-batcher: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
