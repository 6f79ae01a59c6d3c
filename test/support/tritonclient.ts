import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const SCRIPT = join(ROOT, "test/support/triton_call.py");
const PYTHON = process.env.SERVEMESH_PYTHON ?? join(ROOT, ".venv/bin/python");

export interface TritonOrder {
  readonly door: "http" | "grpc";
  readonly address: string;
  readonly model: string;
  readonly version?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly inputs: readonly {
    readonly name: string;
    readonly datatype: string;
    readonly shape: readonly number[];
    readonly values: readonly unknown[];
    /** Datatype of the values when it is to differ from the one that is declared. */
    readonly value_datatype?: string;
  }[];
  readonly outputs: readonly string[];
  readonly binary?: boolean;
}

/** What the library gave its caller: outputs, or the text and status of its InferenceServerException. */
export interface TritonAnswer {
  readonly outputs?: Readonly<Record<string, unknown>>;
  readonly model_version?: string;
  readonly error?: string;
  readonly status?: string;
}

/**
 * Makes one call with the unmodified Python tritonclient of the set-up's .venv.
 * @throws Error with the end of its output when it fails otherwise than by an InferenceServerException
 */
export function callTritonclient(order: TritonOrder): Promise<TritonAnswer> {
  return new Promise((resolve, reject) => {
    const child = spawn(PYTHON, [SCRIPT], { stdio: ["pipe", "pipe", "pipe"] });
    let output = "";
    let errors = "";
    child.stdout.on("data", (chunk) => (output += chunk));
    child.stderr.on("data", (chunk) => (errors += chunk));
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(JSON.parse(output));
      else reject(new Error(`tritonclient ended with ${code}: ${errors.slice(-2000)}`));
    });
    child.stdin.end(JSON.stringify(order));
  });
}
