import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./paths.mjs";

/**
 * True if node_modules holds exactly what package-lock.json asks for, by npm's own list of what it installed. Packages for
 * other operating systems are optional and may be missing.
 */
export function nodeModulesMatchLock() {
  const installedPath = join(root, "node_modules", ".package-lock.json");
  if (!existsSync(installedPath)) return false;
  const wanted = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages;
  const installed = JSON.parse(readFileSync(installedPath, "utf8")).packages;
  const same = (a, b) => a?.version === b?.version && a?.integrity === b?.integrity && a?.link === b?.link;
  const complete = Object.entries(wanted).every(([path, entry]) => {
    if (!path.includes("node_modules/") || entry.optional) return true;
    return same(entry, installed[path]) && existsSync(join(root, path));
  });
  const nothingElse = Object.entries(installed).every(
    ([path, entry]) => !path.includes("node_modules/") || same(entry, wanted[path]),
  );
  return complete && nothingElse;
}
