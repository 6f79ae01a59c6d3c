import { type ChildProcess, spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { NAME_METHOD } from "./named-backend.js";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const PYTHON = process.env.SERVEMESH_PYTHON ?? join(ROOT, ".venv/bin/python");
/** Two programs that take the same lines, each with a gRPC of its own making. */
const COMMANDS = {
  grpcio: [PYTHON, join(ROOT, "test/support/xds_call.py")],
  "@grpc/grpc-js-xds": [process.execPath, join(ROOT, "test/support/xds-call.mjs")],
} as const;

/** Name of an unmodified gRPC implementation, as its package says it. */
export type XdsImplementation = keyof typeof COMMANDS;
export const XDS_IMPLEMENTATIONS = Object.keys(COMMANDS) as readonly XdsImplementation[];
/** Longer than gRPC's 15 s for a name that nobody answers, so that its own error is seen and not a deadline. */
const CALL_TIMEOUT_S = 40;

/** A call that did not end with OK, in the client's words. */
export class XdsCallError extends Error {
  /** Name of the gRPC status. */
  readonly status: string;

  constructor(status: string, details: string) {
    super(`${status}: ${details}`);
    this.status = status;
  }
}

export interface XdsClientOptions {
  readonly implementation: XdsImplementation;
  readonly adsPort: number;
  readonly nodeId: string;
}

interface Line {
  readonly id: number;
  readonly answer?: string;
  readonly status?: string;
  readonly details?: string;
}

/** A process with an unmodified gRPC implementation, which finds backends by xDS alone. */
export class XdsClient {
  readonly #child: ChildProcess;
  readonly #calls = new Map<number, (line: Line) => void>();
  readonly #ended: Promise<void>;
  #errors = "";
  /** Why it makes no calls any more. */
  #end: string | undefined;
  #lastId = 0;

  constructor({ implementation, adsPort, nodeId }: XdsClientOptions) {
    const bootstrap = {
      xds_servers: [
        {
          server_uri: `127.0.0.1:${adsPort}`,
          channel_creds: [{ type: "insecure" }],
          server_features: ["xds_v3"],
        },
      ],
      // Without a locality @grpc/grpc-js-xds does not read its bootstrap.
      node: { id: nodeId, locality: {} },
    };
    const [program, script] = COMMANDS[implementation];
    this.#child = spawn(program, [script], {
      stdio: ["pipe", "pipe", "pipe"],
      // Nothing else of this process's environment: a proxy or a log level would change what is tested.
      env: { PATH: process.env.PATH, GRPC_XDS_BOOTSTRAP_CONFIG: JSON.stringify(bootstrap) },
    });
    this.#child.stderr?.on("data", (chunk) => {
      this.#errors += chunk;
    });
    if (this.#child.stdout !== null) {
      createInterface({ input: this.#child.stdout }).on("line", (text) => this.#take(JSON.parse(text)));
    }
    this.#ended = new Promise((resolve) => {
      this.#child.on("error", (error) => this.#abandon(`does not start: ${error.message}`, resolve));
      this.#child.on("close", (code) => this.#abandon(`ended with ${code}`, resolve));
      // A pipe that breaks is told by the end of the process.
      this.#child.stdin?.on("error", () => undefined);
    });
  }

  /**
   * Asks the service of a listener for the name of the backend that answers. Calls go out side by side.
   * @throws XdsCallError when the call does not end with OK
   */
  call(listener: string, timeoutS = CALL_TIMEOUT_S): Promise<string> {
    if (this.#end !== undefined) return Promise.reject(new XdsCallError("CLIENT_ENDED", this.#end));
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, ({ answer, status = "", details = "" }) => {
        if (answer === undefined) reject(new XdsCallError(status, details));
        else resolve(answer);
      });
      const order = { id, target: `xds:///${listener}`, method: NAME_METHOD, timeout_s: timeoutS };
      this.#child.stdin?.write(`${JSON.stringify(order)}\n`);
    });
  }

  /** Ends the process and waits for its end. */
  async close(): Promise<void> {
    this.#end ??= "it was closed";
    this.#child.stdin?.end();
    await this.#ended;
  }

  #take(line: Line): void {
    this.#calls.get(line.id)?.(line);
    this.#calls.delete(line.id);
  }

  #abandon(why: string, resolve: () => void): void {
    this.#end = `the client ${why}: ${this.#errors.slice(-2000)}`;
    for (const id of [...this.#calls.keys()]) this.#take({ id, status: "CLIENT_ENDED", details: this.#end });
    resolve();
  }
}
