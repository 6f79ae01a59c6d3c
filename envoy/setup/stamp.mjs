import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { root, workDir } from "./paths.mjs";

const SKIPPED_FOLDERS = new Set(["node_modules", "dist", "build", ".venv", ".setup", ".git", "__pycache__", "var"]);

/**
 * @typedef {object} Inputs what a step depends on
 * @property {string[]} [files] files and folders (with all below them), relative to the root; a missing one counts as such
 * @property {(path: string) => boolean} [accept] which files below a folder count; all by default
 * @property {string[]} [facts] anything else, e.g. versions
 */

/** Hash of a step's inputs: equal as long as a new run would do the same. */
export function fingerprint({ files = [], accept = () => true, facts = [] }) {
  const hash = createHash("sha256");
  for (const fact of facts) hash.update(`fact ${fact}\n`);
  for (const path of files) addPath(hash, path, accept);
  return hash.digest("hex");
}

function addPath(hash, path, accept) {
  const full = isAbsolute(path) ? path : join(root, path);
  const stat = statSync(full, { throwIfNoEntry: false });
  if (stat === undefined) {
    hash.update(`missing ${path}\n`);
  } else if (!stat.isDirectory()) {
    const content = readFileSync(full);
    hash.update(`file ${path} ${content.length}\n`).update(content);
  } else {
    const entries = readdirSync(full, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const entry of entries) {
      const child = `${path}/${entry.name}`;
      if (entry.isDirectory() ? !SKIPPED_FOLDERS.has(entry.name) : accept(child)) addPath(hash, child, accept);
    }
  }
}

function stampPath(step) {
  return join(workDir, "stamps", step.replaceAll(" ", "-"));
}

/** True if the step last succeeded with these inputs and what it made is still there. */
export function isUpToDate(step, print, outputs) {
  const path = stampPath(step);
  return (
    existsSync(path) &&
    readFileSync(path, "utf8") === print &&
    outputs.every((output) => existsSync(join(root, output)))
  );
}

export function writeStamp(step, print) {
  mkdirSync(join(workDir, "stamps"), { recursive: true });
  writeFileSync(stampPath(step), print);
}

/** Removed before a step runs, so that an interrupted one runs again. */
export function removeStamp(step) {
  rmSync(stampPath(step), { force: true });
}
