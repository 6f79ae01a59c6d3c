import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** A built WebAssembly module. */
export interface ModuleFile {
  /** Absolute path of the file. */
  readonly path: string;
  readonly bytes: Uint8Array;
  /** SHA-256 of the bytes, lower-case hex. */
  readonly sha256: string;
}

/** This code runs from `modules/` (tests) and from `dist/modules/` (everybody else); `build/` lies beside package.json. */
function packageFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) {
    const parent = dirname(folder);
    if (parent === folder)
      throw new Error("the package folder of @servemesh/wasm-filters was not found above its code");
    folder = parent;
  }
  return folder;
}

/** Reads `build/<name>.wasm`. Throws one line with the remedy when it has not been built. */
export function readModule(name: string): ModuleFile {
  const path = join(packageFolder(), "build", `${name}.wasm`);
  if (!existsSync(path)) {
    throw new Error(
      `WebAssembly module ${name} is not built (${path}); run "npm run build:wasm -w @servemesh/wasm-filters"`,
    );
  }
  const bytes = readFileSync(path);
  return { path, bytes, sha256: createHash("sha256").update(bytes).digest("hex") };
}

/** The gate as built, for delivery to Envoy (inline bytes and their digest). */
export function loadGateModule(): ModuleFile {
  return readModule("gate");
}
