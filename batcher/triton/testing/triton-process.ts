import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Where the wheel of nvidia-pytriton lies; test support. */
interface TritonWheel {
  readonly python: string;
  readonly sitePackages: string;
}

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");

/** Finds a Python with the wheel: `SERVEMESH_PYTHON`, else the project's `.venv`. Undefined when there is none. */
export function findTritonWheel(): TritonWheel | undefined {
  const python = process.env.SERVEMESH_PYTHON ?? join(ROOT, ".venv", "bin", "python");
  if (!existsSync(python)) return undefined;
  const find = "import sysconfig; print(sysconfig.get_path('purelib'))";
  const sitePackages = execFileSync(python, ["-c", find], { encoding: "utf8" }).trim();
  return existsSync(join(sitePackages, "pytriton", "tritonserver", "bin", "tritonserver"))
    ? { python, sitePackages }
    : undefined;
}

/** Inputs come back as outputs, row by row: FP32 and BYTES. */
const ECHO_MODEL = `
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            pairs = (("features", "scores"), ("query", "label"))
            outputs = [pb.Tensor(out, pb.get_input_tensor_by_name(request, name).as_numpy()) for name, out in pairs]
            responses.append(pb.InferenceResponse(outputs))
        return responses
`;

const ECHO_CONFIG = `
name: "ranker"
backend: "python"
max_batch_size: 32
input [ { name: "features" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "query" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "scores" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "label" data_type: TYPE_STRING dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
version_policy: { specific: { versions: [ 41 ] } }
`;

/** A real Triton with the echo model as ranker, version 41. */
export class TritonProcess {
  private child: ChildProcess | undefined;

  /** @param basePort gRPC; the next two are HTTP and metrics */
  constructor(
    private readonly wheel: TritonWheel,
    private readonly directory: string,
    private readonly basePort: number,
  ) {
    this.layOut();
  }

  get address(): { host: string; port: number } {
    return { host: "127.0.0.1", port: this.basePort };
  }

  start(): void {
    const { python, sitePackages } = this.wheel;
    const server = join(sitePackages, "pytriton", "tritonserver", "bin", "tritonserver");
    const log = openSync(join(this.directory, "triton.log"), "a");
    this.child = spawn(server, this.flags(), {
      stdio: ["ignore", log, log],
      env: {
        ...process.env,
        // The first python3 on PATH is the interpreter whose packages the model sees.
        PATH: `${dirname(python)}${delimiter}${process.env.PATH ?? ""}`,
        LD_LIBRARY_PATH: `${join(sitePackages, "nvidia_pytriton.libs")}${delimiter}${pythonLibraries(python)}`,
      },
    });
  }

  log(): string {
    return readFileSync(join(this.directory, "triton.log"), "utf8");
  }

  /** The python process behind the model. */
  stubPid(): number {
    const server = this.child?.pid;
    const stubs = readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .filter((pid) => commandLine(pid).includes("triton_python_backend_stub") && parentOf(pid) === server);
    const [stub] = stubs;
    if (stub === undefined) throw new Error("Triton has no python stub process");
    return stub;
  }

  /** Kills and waits until the process is gone. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const { child } = this;
    this.child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    await new Promise((resolve) => {
      child.once("exit", resolve);
      child.kill(signal);
    });
  }

  private layOut(): void {
    const tritonRoot = join(this.wheel.sitePackages, "pytriton", "tritonserver");
    const backend = join(this.directory, "backends", "python");
    const model = join(this.directory, "models", "ranker");
    mkdirSync(backend, { recursive: true });
    mkdirSync(join(model, "41"), { recursive: true });
    for (const file of ["libtriton_python.so", "triton_python_backend_utils.py"]) {
      copyFileSync(join(tritonRoot, "backends", "python", file), join(backend, file));
    }
    const version = execFileSync(this.wheel.python, ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"], {
      encoding: "utf8",
    });
    const stub = "triton_python_backend_stub";
    copyFileSync(join(tritonRoot, "python_backend_stubs", version.trim(), stub), join(backend, stub));
    writeFileSync(join(model, "config.pbtxt"), ECHO_CONFIG);
    writeFileSync(join(model, "41", "model.py"), ECHO_MODEL);
  }

  private flags(): string[] {
    const port = (offset: number): string => String(this.basePort + offset);
    return [
      `--model-repository=${join(this.directory, "models")}`,
      `--backend-directory=${join(this.directory, "backends")}`,
      "--backend-config=python,stub-timeout-seconds=60",
      ...["--grpc-address=127.0.0.1", `--grpc-port=${port(0)}`],
      ...["--http-address=127.0.0.1", `--http-port=${port(1)}`],
      ...["--metrics-address=127.0.0.1", `--metrics-port=${port(2)}`],
      ...["--allow-gpu-metrics=false", "--exit-timeout-secs=3", "--exit-on-error=false"],
      ...["--model-control-mode=explicit", "--load-model=ranker"],
    ];
  }
}

/** Where the interpreter's shared library lies, which the stub needs. */
function pythonLibraries(python: string): string {
  return execFileSync(python, ["-c", "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"], {
    encoding: "utf8",
  }).trim();
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

function parentOf(pid: number): number {
  try {
    return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  } catch {
    return Number.NaN;
  }
}
