import { execFileSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { SetupFailure } from "./failure.mjs";

const NODE_MIN = [20, 12];
/** The Triton wheel is built for it. */
const GLIBC_MIN = [2, 35];

function atLeast(version, [major, minor]) {
  const [a = 0, b = 0] = version.split(".").map(Number);
  return a > major || (a === major && b >= minor);
}

/** Refuses a machine that the binaries of the wheels do not run on, before anything is downloaded. */
export function checkPlatform() {
  if (!atLeast(process.versions.node, NODE_MIN)) {
    throw new SetupFailure(
      `Node ${process.versions.node} is too old: servemesh needs ${NODE_MIN.join(".")} or newer`,
      "install Node 20 (https://nodejs.org, or `nvm install 20`) and run this again",
    );
  }
  if (process.platform !== "linux" || process.arch !== "x64") {
    throw new SetupFailure(
      `this is ${process.platform}/${process.arch}: the Envoy and Triton binaries are for linux/x64`,
      "use a Linux machine, virtual machine or container with an x86-64 processor",
    );
  }
  const glibc = process.report.getReport().header.glibcVersionRuntime;
  if (glibc === undefined || !atLeast(glibc, GLIBC_MIN)) {
    throw new SetupFailure(
      `the C library is ${glibc ? `glibc ${glibc}` : "not glibc"}: Triton needs glibc ${GLIBC_MIN.join(".")} or newer`,
      "use Debian 12, Ubuntu 22.04, Fedora 36 or anything newer",
    );
  }
}

/** What a binary that a person chose says of itself, first line; throws if it cannot run. */
function versionOf(variable, path) {
  try {
    accessSync(path, constants.X_OK);
  } catch {
    throw new SetupFailure(
      `${variable} is ${path}, which is not an executable file`,
      `set ${variable} to an executable, or unset it to use the one of the Python wheels`,
    );
  }
  try {
    const text = execFileSync(path, ["--version"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 20_000,
    });
    return text.trim().split("\n")[0];
  } catch {
    // Triton's launcher has no --version that succeeds everywhere; that it is executable is enough.
    return "version unknown";
  }
}

/** Lines about the overridden binaries; empty when none is. */
export function describeOverrides(env) {
  return ["ENVOY_BIN", "TRITON_BIN"]
    .filter((variable) => env[variable])
    .map((variable) => `${variable}: ${env[variable]} (${versionOf(variable, env[variable])})`);
}
