import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const PACKAGES = ["proto", "wasm-filters", "xds-server", "batcher", "envoy", "test"];
const SKIPPED = new Set(["node_modules", "dist", "build", "gen", "descriptors", "testdata"]);
/** Made at set-up or at run time, so a document may name them although they are not in the repository. */
const MADE = /^(var|build|dist|gen|\.venv|\.setup|node_modules)(\/|$)|\/(dist|build|gen|descriptors)\//;
const EXTENSION = /\.(ts|mjs|cjs|json|md|proto|yaml|py|in|txt)$/;

function readmes(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.isDirectory()) return SKIPPED.has(entry.name) ? [] : readmes(join(folder, entry.name));
    return entry.name.endsWith(".md") ? [join(folder, entry.name)] : [];
  });
}

/** Texts in code marks that look like paths of this repository: no spaces, wildcards or place-holders. */
function pathsNamedIn(markdown: string): string[] {
  const inline = [...markdown.matchAll(/`([^`\n]+)`/g)].map((match) => match[1] as string);
  return inline.filter(
    (text) => /^[\w./-]+$/.test(text) && text.includes("/") && (text.endsWith("/") || EXTENSION.test(text)),
  );
}

describe("paths that a README names", () => {
  const files = [join(ROOT, "README.md"), ...PACKAGES.flatMap((name) => readmes(join(ROOT, name)))];

  it.each(PACKAGES)("%s has a README", (name) => {
    expect(existsSync(join(ROOT, name, "README.md"))).toBe(true);
  });

  it("are there", () => {
    const missing = files.filter(existsSync).flatMap((file) =>
      pathsNamedIn(readFileSync(file, "utf8"))
        .filter((path) => !MADE.test(path) && !path.startsWith("/"))
        .filter((path) => !existsSync(join(dirname(file), path)) && !existsSync(join(ROOT, path)))
        .map((path) => `${file.slice(ROOT.length + 1)}: ${path}`),
    );
    expect(missing).toEqual([]);
  });
});
