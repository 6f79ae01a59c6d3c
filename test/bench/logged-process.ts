import { spawn } from "node:child_process";
import { openSync } from "node:fs";

/** A process that a benchmark started by itself, beside what the mesh's runner starts. */
export interface LoggedProcess {
  readonly pid: number;
  /** Ends it with this signal and waits until it has gone. */
  stop(signal: "SIGTERM" | "SIGKILL"): Promise<void>;
}

/** Starts a program whose output goes to a file. When the benchmark ends, however it does, the program is killed. */
export function startLogged(program: string, flags: readonly string[], logFile: string): LoggedProcess {
  const log = openSync(logFile, "w");
  const child = spawn(program, flags, { stdio: ["ignore", log, log] });
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  return {
    pid: child.pid ?? 0,
    stop: (signal) => {
      process.off("exit", kill);
      return new Promise((resolve) => {
        if (child.exitCode !== null || child.signalCode !== null) {
          resolve();
          return;
        }
        child.once("exit", () => resolve());
        child.kill(signal);
      });
    },
  };
}
