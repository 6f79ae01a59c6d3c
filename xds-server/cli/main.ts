import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";
import { CommanderError } from "commander";
import { createMeshctl } from "./meshctl.js";

const FAILURE = 1;
const USAGE = 2;

/** Runs one command line. @returns the exit status: 0 done, 1 refused or failed, 2 wrong command line */
export async function runMeshctl(argv: readonly string[]): Promise<number> {
  // grpc-js writes its own lines to stderr; what matters of them is in the error.
  setLogVerbosity(logVerbosity.NONE);
  try {
    await createMeshctl((text) => void process.stdout.write(text)).parseAsync([...argv], { from: "user" });
    return 0;
  } catch (error) {
    // Commander has printed its line already; --help and --version are no failure.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE;
    process.stderr.write(`meshctl: ${error instanceof Error ? error.message : String(error)}\n`);
    return FAILURE;
  }
}
