import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { repositoryRoot } from "@servemesh/envoy";

const SOURCES = join(repositoryRoot, "test/bench/xds");

/** Programs in Go that the comparison needs. */
export interface XdsTools {
  /** Load client for any ADS server; test/bench/xds/load/README.md tells its flags. */
  readonly load: string;
  /** go-control-plane behind the same resources. */
  readonly peer: string;
}

/**
 * Builds both programs; the first time Go fetches what they import.
 * @throws Error with the remedy when Go is missing or a build fails
 */
export function buildXdsTools(folder: string): XdsTools {
  if (spawnSync("go", ["version"]).error !== undefined) {
    throw new Error(
      "this benchmark compares with a server in Go, and `go` is not on the PATH; install Go 1.26 or newer",
    );
  }
  mkdirSync(folder, { recursive: true });
  return { load: build(folder, "load"), peer: build(folder, "peer") };
}

function build(folder: string, name: string): string {
  const binary = join(folder, name);
  const { status, stderr } = spawnSync("go", ["build", "-o", binary, "."], {
    cwd: join(SOURCES, name),
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`go build of test/bench/xds/${name} failed:\n${stderr}`);
  return binary;
}
