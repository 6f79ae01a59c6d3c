import { ManagedProcess, type ProcessSpec } from "./managed-process.js";

/** One process of a running mesh. A test may end it and start it again; it keeps its ports, files and flags. */
export interface Part {
  readonly name: string;
  /** Undefined while it does not run. */
  readonly pid: number | undefined;
  readonly running: boolean;
  readonly logFile: string;
  /** Starts it and waits until it is ready. */
  start(): Promise<void>;
  /** Asks it to end in order and waits. */
  stop(): Promise<void>;
  /** SIGKILL to it and its children, and waits. */
  kill(): Promise<void>;
}

export interface PartOptions {
  readonly process: ProcessSpec;
  /** Whether it does its work; asked every few ms. */
  readonly isReady: () => Promise<boolean>;
  readonly readyTimeoutMs: number;
  /** How long an orderly end may take before it is killed. */
  readonly stopGraceMs: number;
  /** Ends the waiting when the whole start is given up. */
  readonly abort: AbortSignal | undefined;
}

/** Makes a part that does not run yet. */
export function createPart(options: PartOptions): Part {
  const managed = new ManagedProcess(options.process);
  return {
    name: options.process.name,
    logFile: options.process.logFile,
    get pid() {
      return managed.pid;
    },
    get running() {
      return managed.running;
    },
    start: async () => {
      options.abort?.throwIfAborted();
      managed.start();
      await managed.waitReady(options.isReady, options.readyTimeoutMs, options.abort);
    },
    stop: () => managed.stop(options.stopGraceMs),
    kill: () => managed.kill(),
  };
}
