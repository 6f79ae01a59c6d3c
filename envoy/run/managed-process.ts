import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { RunError } from "./run-error.js";

/** How one process is started. */
export interface ProcessSpec {
  /** For messages, such as `batcher ranker-41`. */
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  /** Added to this process's own environment. */
  readonly environment: Readonly<Record<string, string>>;
  /** Standard output and error are appended to it. */
  readonly logFile: string;
}

const POLL_MS = 25;
const LOG_TAIL_LINES = 12;

/** One child process: started, watched until it is ready, and ended in order. Can be started again after its end. */
export class ManagedProcess {
  private child: ChildProcess | undefined;
  private gone: Promise<void> = Promise.resolve();

  constructor(readonly spec: ProcessSpec) {}

  get pid(): number | undefined {
    return this.running ? this.child?.pid : undefined;
  }

  get running(): boolean {
    return this.child !== undefined && this.child.exitCode === null && this.child.signalCode === null;
  }

  /** @throws Error when it runs already */
  start(): void {
    if (this.running) throw new Error(`${this.spec.name} runs already`);
    const { command, environment, logFile } = this.spec;
    mkdirSync(dirname(logFile), { recursive: true });
    const log = openSync(logFile, "a");
    const [file, ...args] = command;
    const child = spawn(file, args, {
      stdio: ["ignore", log, log],
      env: { ...process.env, ...environment },
      // A group of its own: Ctrl-C reaches only the starter, which ends all in their order.
      detached: true,
    });
    closeSync(log);
    this.child = child;
    this.gone = new Promise((resolve) => {
      child.once("exit", () => resolve());
      child.once("error", () => resolve());
    });
  }

  /**
   * Waits until `probe` says yes.
   * @throws RunError with the end of the log when the process ends before that, or after `timeoutMs`
   */
  async waitReady(probe: () => Promise<boolean>, timeoutMs: number, abort?: AbortSignal): Promise<void> {
    const stopAtMs = performance.now() + timeoutMs;
    for (;;) {
      abort?.throwIfAborted();
      if (!this.running) throw new RunError(`${this.spec.name} ended ${this.howItEnded()}\n${this.logTail()}`);
      if (await probe()) return;
      if (performance.now() > stopAtMs) {
        throw new RunError(`${this.spec.name} was not ready after ${timeoutMs / 1000} s\n${this.logTail()}`);
      }
      await sleep(POLL_MS);
    }
  }

  /** Asks it to end, and kills its group when that takes longer than `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    if (!this.running) return;
    this.signal("SIGTERM");
    const timer = setTimeout(() => this.signal("SIGKILL"), graceMs);
    await this.gone;
    clearTimeout(timer);
  }

  /** Ends it without a chance to tidy up, with its children, as a crash of the machine would. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.gone;
  }

  /** The last lines of its log, each behind its name. */
  logTail(): string {
    try {
      const lines = readFileSync(this.spec.logFile, "utf8").trimEnd().split("\n").slice(-LOG_TAIL_LINES);
      return [`--- end of ${this.spec.logFile}`, ...lines].join("\n");
    } catch {
      return `--- no log at ${this.spec.logFile}`;
    }
  }

  private howItEnded(): string {
    // Without an id it never was a process; Node then makes up a negative exit code.
    if (this.child?.pid === undefined) return "before it began: the command cannot be started";
    if (this.child.exitCode !== null) return `with exit code ${this.child.exitCode}`;
    if (this.child.signalCode !== null) return `by ${this.child.signalCode}`;
    return "for an unknown reason";
  }

  private signal(signal: NodeJS.Signals): void {
    const pid = this.child?.pid;
    if (pid === undefined || !this.running) return;
    try {
      // SIGTERM to the process alone, because its children are its own to end; SIGKILL to the whole group.
      process.kill(signal === "SIGKILL" ? -pid : pid, signal);
    } catch {
      // It ended in the meantime.
    }
  }
}
