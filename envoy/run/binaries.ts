import { execFileSync } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import { join } from "node:path";
import { repositoryRoot } from "./paths.js";
import { RunError } from "./run-error.js";

const REMEDY = "run `npm run setup`";

/** Where to start Triton from. */
export interface TritonInstallation {
  /** The server's executable. */
  readonly binary: string;
  /** Folder of the python backend as Triton wants it; undefined when a Triton of your own brings its backends along. */
  readonly pythonBackend: PythonBackend | undefined;
}

/** What the wheel's python backend consists of; its parts lie in different folders and are put together per run. */
export interface PythonBackend {
  readonly files: readonly string[];
  /** For LD_LIBRARY_PATH: the server's own libraries and libpython. */
  readonly libraryFolders: readonly string[];
  /** Folder whose `python3` must be the first one on the PATH, else the backend does not find its packages. */
  readonly pythonFolder: string;
}

/**
 * The Envoy to run: `ENVOY_BIN`, else the one of the set-up's wheel.
 * @throws RunError with the remedy when it is missing or not executable
 */
export function findEnvoy(env: NodeJS.ProcessEnv = process.env): string {
  if (env.ENVOY_BIN) return executable("ENVOY_BIN", env.ENVOY_BIN);
  const binary = join(sitePackages(env, "Envoy"), "envoy", "_bin", "envoy");
  return executable("Envoy", binary, REMEDY);
}

/**
 * The Triton to run: `TRITON_BIN` (which must know the python backend), else the one of the set-up's wheel.
 * @throws RunError with the remedy when a part is missing
 */
export function findTriton(env: NodeJS.ProcessEnv = process.env): TritonInstallation {
  if (env.TRITON_BIN) return { binary: executable("TRITON_BIN", env.TRITON_BIN), pythonBackend: undefined };
  const packages = sitePackages(env, "Triton");
  const server = join(packages, "pytriton", "tritonserver");
  const binary = executable("Triton", join(server, "bin", "tritonserver"), REMEDY);
  const python = pythonCommand(env);
  const version = askPython(python, "import sys; print('%d.%d' % sys.version_info[:2])");
  const files = [
    join(server, "backends", "python", "libtriton_python.so"),
    join(server, "backends", "python", "triton_python_backend_utils.py"),
    join(server, "python_backend_stubs", version, "triton_python_backend_stub"),
  ];
  const libpython = join(repositoryRoot, ".setup", "libpython");
  const needed = [...files, join(libpython, `libpython${version}.so.1.0`)];
  const missing = needed.find((path) => !existsSync(path));
  if (missing !== undefined)
    throw new RunError(`Triton's python backend is incomplete, ${missing} is missing; ${REMEDY}`);
  return {
    binary,
    pythonBackend: {
      files,
      libraryFolders: [join(packages, "nvidia_pytriton.libs"), libpython],
      pythonFolder: join(python, ".."),
    },
  };
}

/**
 * The Python of the set-up, or `SERVEMESH_PYTHON`.
 * @throws RunError when there is none
 */
export function pythonCommand(env: NodeJS.ProcessEnv = process.env): string {
  const python = env.SERVEMESH_PYTHON ?? join(repositoryRoot, ".venv", "bin", "python");
  return executable(env.SERVEMESH_PYTHON === undefined ? "Python" : "SERVEMESH_PYTHON", python, REMEDY);
}

function sitePackages(env: NodeJS.ProcessEnv, wanted: string): string {
  const python = pythonCommand(env);
  try {
    return askPython(python, "import sysconfig; print(sysconfig.get_path('purelib'))");
  } catch (error) {
    throw new RunError(`${wanted} was not found, because ${python} does not run (${String(error)}); ${REMEDY}`);
  }
}

function askPython(python: string, code: string): string {
  return execFileSync(python, ["-c", code], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
}

function executable(
  what: string,
  path: string,
  remedy = "set it to an executable, or unset it to use the set-up's",
): string {
  try {
    accessSync(path, constants.X_OK);
    return path;
  } catch {
    throw new RunError(`${what}: ${path} is not an executable file; ${remedy}`);
  }
}
