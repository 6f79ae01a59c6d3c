import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";
import { CommanderError } from "commander";
import { readTargetOptions, type TargetOptions } from "./options.js";
import { startTarget } from "./target.js";

const FAILURE = 1;
const USAGE = 2;
/** npm and the terminal both pass Ctrl-C on; this close together it is one. */
const SAME_SIGNAL_MS = 500;

function readOptions(): TargetOptions {
  try {
    return readTargetOptions(process.argv.slice(2));
  } catch (error) {
    // Commander has printed its text already; --help is no failure.
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : USAGE);
    throw error;
  }
}

/** First signal: an orderly end. A later one: at once. */
function signalled(): Promise<void> {
  return new Promise((resolve) => {
    let firstMs: number | undefined;
    const stop = (): void => {
      firstMs ??= performance.now();
      resolve();
      if (performance.now() - firstMs > SAME_SIGNAL_MS) process.exit(FAILURE);
    };
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, stop);
  });
}

// grpc-js writes lines of its own to stderr; what matters of them reaches us as errors of calls.
setLogVerbosity(logVerbosity.NONE);
const options = readOptions();
const end = signalled();
try {
  const target = await startTarget(options);
  const { xdsPort, adapterPort } = target;
  console.log(JSON.stringify({ xds: `127.0.0.1:${xdsPort}`, adapter: `127.0.0.1:${adapterPort}` }));
  await end;
  await target.close();
} catch (error) {
  console.error(`conformance target: ${error instanceof Error ? error.message : error}`);
  process.exitCode = FAILURE;
}
