import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Root of the repository. Compiled code lies one level deeper (envoy/dist/run) than its source, so the depth is not
 * assumed but looked for.
 */
function findRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!isRoot(folder)) {
    const parent = dirname(folder);
    if (parent === folder)
      throw new Error("the root of servemesh was not found: no package.json named servemesh above");
    folder = parent;
  }
  return folder;
}

function isRoot(folder: string): boolean {
  try {
    return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).name === "servemesh";
  } catch {
    return false;
  }
}

/** Root of the repository, absolute. */
export const repositoryRoot: string = findRoot();

/** The models that the set-up trained: manifest.json, repositories/ and features/. */
export const modelsFolder: string = join(repositoryRoot, "var", "models");
