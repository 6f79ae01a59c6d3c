/**
 * Re-locks the Python packages: X.in (pins) -> X.txt (pins with hashes). Run by hand after changing a pin; needs the
 * network and a pip of 23 or newer: `node envoy/setup/lock-requirements.mjs [--python .venv/bin/python]`.
 *
 * pip resolves each list once per Python version and libc age that may run it, without installing anything, and reports the
 * chosen wheels; the union of their hashes goes into the lock, so that every supported machine finds its wheel in it.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const setupDir = dirname(fileURLToPath(import.meta.url));
const PYTHONS = ["3.11", "3.12"];
/** 2.35 is the oldest that the Triton wheel runs on (requirements of the set-up). */
const GLIBC_MINORS = [35, 39];

/** Platform tags of a libc, newest first, as pip ranks them. */
function platformTags(glibcMinor) {
  const tags = [];
  for (let minor = glibcMinor; minor >= 5; minor--) tags.push(`manylinux_2_${minor}_x86_64`);
  return [...tags, "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"];
}

function report(python, input, version, glibcMinor, scratch) {
  const abi = `cp${version.replace(".", "")}`;
  const args = ["-m", "pip", "install", "--dry-run", "--quiet", "--no-deps", "--ignore-installed", "--report", "-"];
  args.push("--target", scratch, "--only-binary", ":all:", "--implementation", "cp", "--python-version", version);
  for (const tag of [abi, "abi3", "none"]) args.push("--abi", tag);
  for (const tag of platformTags(glibcMinor)) args.push("--platform", tag);
  const text = execFileSync(python, [...args, "-r", input], { encoding: "utf8", maxBuffer: 1 << 28 });
  return JSON.parse(text.slice(text.indexOf("{"))).install;
}

function lock(python, name) {
  const input = join(setupDir, `${name}.in`);
  const scratch = mkdtempSync(join(tmpdir(), "lock-requirements-"));
  /** @type {Map<string, Set<string>>} */
  const hashes = new Map();
  try {
    for (const version of PYTHONS) {
      for (const glibcMinor of GLIBC_MINORS) {
        for (const { metadata, download_info } of report(python, input, version, glibcMinor, scratch)) {
          const pin = `${metadata.name.toLowerCase().replace(/[._]/g, "-")}==${metadata.version}`;
          if (!hashes.has(pin)) hashes.set(pin, new Set());
          hashes.get(pin).add(download_info.archive_info.hashes.sha256);
        }
        console.log(`${name}: Python ${version}, glibc 2.${glibcMinor}: ${hashes.size} packages`);
      }
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  const lines = [...hashes]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([pin, set]) => [pin, ...[...set].sort().map((hash) => `    --hash=sha256:${hash}`)].join(" \\\n"));
  const header = `# Written by envoy/setup/lock-requirements.mjs from ${name}.in. Do not edit.\n`;
  writeFileSync(join(setupDir, `${name}.txt`), `${header}${lines.join("\n")}\n`);
  const wanted = readFileSync(input, "utf8")
    .split("\n")
    .filter((line) => /^[a-z]/i.test(line)).length;
  if (hashes.size !== wanted) throw new Error(`${name}.in has ${wanted} pins, but ${hashes.size} were resolved`);
}

const at = process.argv.indexOf("--python");
const python = at > 0 ? process.argv[at + 1] : join(setupDir, "..", "..", ".venv", "bin", "python");
for (const name of ["requirements", "data-requirements"]) lock(python, name);
