import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { repositoryRoot } from "@servemesh/envoy";
import { eventually } from "../support/eventually.js";

const MAIN = join(repositoryRoot, "test/dist/conformance/target/main.js");
/** Far above what a start needs, so that nothing depends on speed. */
const START_TIMEOUT_MS = 30_000;

/** How a process ended. */
export interface Ended {
  readonly status: number | null;
  readonly out: string;
  readonly err: string;
}

/** The conformance target as a process of its own. */
export class TargetProcess {
  readonly ended: Promise<Ended>;
  readonly #child: ChildProcess;
  #out = "";
  #err = "";

  constructor(...flags: string[]) {
    const child = spawn(process.execPath, [MAIN, ...flags], { stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.on("data", (text) => {
      this.#out += text;
    });
    child.stderr.on("data", (text) => {
      this.#err += text;
    });
    this.ended = once(child, "close").then(([status]) => ({ status, out: this.#out, err: this.#err }));
    this.#child = child;
  }

  /** The line that tells the addresses. @throws Error when the process ends without it */
  addresses(): Promise<{ readonly xds: string; readonly adapter: string }> {
    const told = eventually("the target starts", () => (this.#out.includes("\n") ? JSON.parse(this.#out) : undefined), {
      timeoutMs: START_TIMEOUT_MS,
    });
    const ended = this.ended.then(({ status, out, err }) => {
      if (!out.includes("\n")) throw new Error(`the target ended with ${status}: ${err}`);
      return told;
    });
    return Promise.race([told, ended]);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Whatever state it is in. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.ended;
  }
}
