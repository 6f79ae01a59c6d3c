/**
 * Compiles the AssemblyScript modules into build/, checks what came out, and skips a module whose inputs are unchanged.
 * Run by `npm run build:wasm`; `--force` compiles everything.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";
import { checkFilter, describeModule } from "./proxy-wasm-abi.mjs";

const ROOT = dirname(fileURLToPath(import.meta.url));
const BUILD = join(ROOT, "build");
const PROTO_NAMES = join(ROOT, "../proto/src/names.ts");
const ASC_VERSION = createRequire(import.meta.url)("assemblyscript/package.json").version;

/** What Envoy 1.40 wants of a filter: `_initialize` in place of a start section, no `env.abort`, a memory cap. */
const FILTER_OPTIONS = [
  ...["--runtime", "incremental", "--exportStart", "_initialize", "--use", "abort=pwAbort"],
  ...["--stackSize", "32768", "--maximumMemory", "1024", "-O3", "--debug"],
];
const TRANSFORM_OPTIONS = ["--runtime", "stub", "--stackSize", "0", "--maximumMemory", "1024", "-O3", "--debug"];

const TRANSFORM_NEEDED = ["memory", "alloc", "reset", "transform", "view_count", "view_width", "output_width"];
const TRANSFORM_EXPORTS = {
  memory: "memory",
  alloc: "(i32) -> i32",
  reset: "() -> ()",
  view_count: "() -> i32",
  view_width: "(i32) -> i32",
  output_width: "() -> i32",
};

const MODULES = [
  {
    name: "gate",
    entry: "assembly/gate/index.ts",
    options: FILTER_OPTIONS,
    budgetBytes: 64 * 1024,
    check: checkFilter,
  },
  {
    name: "example",
    entry: "assembly/proxy-wasm/example/index.ts",
    options: FILTER_OPTIONS,
    budgetBytes: 16 * 1024,
    check: checkFilter,
  },
  ...readdirSync(join(ROOT, "assembly/transform"))
    .filter((file) => file.endsWith(".ts"))
    .map((file) => ({
      name: `transform-${file.slice(0, -3)}`,
      entry: `assembly/transform/${file}`,
      options: TRANSFORM_OPTIONS,
      budgetBytes: 8 * 1024,
      check: checkTransform,
    })),
];

/** All AssemblyScript sources; a module depends on few of them, but a needless build costs only two seconds. */
function sources() {
  return readdirSync(join(ROOT, "assembly"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}

function inputsDigest(module) {
  const hash = createHash("sha256").update(JSON.stringify([ASC_VERSION, module.entry, module.options]));
  const folder = dirname(module.entry);
  // The SDK and the gate may change a filter; a transform stands alone.
  const relevant = module.name.startsWith("transform-")
    ? [join(ROOT, module.entry)]
    : [...sources().filter((file) => relative(ROOT, file).startsWith("assembly/proxy-wasm/")), PROTO_NAMES];
  if (folder !== "assembly/transform") {
    relevant.push(...sources().filter((file) => relative(ROOT, file).startsWith(`${folder}/`)));
  }
  for (const file of [...new Set([...relevant, join(ROOT, "build.mjs"), join(ROOT, "proxy-wasm-abi.mjs")])].sort()) {
    hash.update(`${relative(ROOT, file)}\0`).update(readFileSync(file));
  }
  return hash.digest("hex");
}

function readOrUndefined(file) {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}

async function compile(module) {
  let stderr = "";
  const target = join(BUILD, `${module.name}.wasm`);
  const fresh = `${target}.new`;
  const { error } = await asc.main(
    [join(ROOT, module.entry), "--baseDir", ROOT, "--outFile", relative(ROOT, fresh), ...module.options],
    { stderr: { write: (text) => (stderr += text) } },
  );
  if (error) throw new Error(`asc could not compile ${module.entry}:\n${stderr}${error.message}`);
  const bytes = readFileSync(fresh);
  const problems = [];
  if (bytes.length > module.budgetBytes) {
    problems.push(
      `has ${bytes.length} bytes, the budget is ${module.budgetBytes}; look for what grew or raise it here`,
    );
  }
  problems.push(...module.check(describeModule(bytes)));
  if (problems.length > 0) throw new Error(`build/${module.name}.wasm ${problems.join("; ")}`);
  renameSync(fresh, target);
  return bytes;
}

function checkTransform({ imports, exports, hasStart }) {
  const problems = [];
  if (hasStart) problems.push("has a start section; move top-level code into functions");
  for (const name of Object.keys(imports)) problems.push(`imports ${name}; a transform imports nothing`);
  for (const name of TRANSFORM_NEEDED) if (exports[name] === undefined) problems.push(`does not export ${name}`);
  for (const [name, type] of Object.entries(TRANSFORM_EXPORTS)) {
    if (exports[name] !== undefined && exports[name] !== type)
      problems.push(`exports ${name} as ${exports[name]}, not ${type}`);
  }
  return problems;
}

async function main() {
  mkdirSync(BUILD, { recursive: true });
  const stampFile = join(BUILD, "stamp.json");
  const stamp = JSON.parse(readOrUndefined(stampFile)?.toString() ?? "{}");
  const only = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
  for (const module of MODULES) {
    if (only.length > 0 && !only.includes(module.name)) continue;
    const inputs = inputsDigest(module);
    const present = readOrUndefined(join(BUILD, `${module.name}.wasm`));
    const presentDigest = present && createHash("sha256").update(present).digest("hex");
    const known = stamp[module.name];
    const current = known?.inputs === inputs && known.output === presentDigest;
    if (current && !process.argv.includes("--force")) {
      console.log(`${module.name}.wasm is up to date`);
      continue;
    }
    const bytes = await compile(module);
    stamp[module.name] = { inputs, output: createHash("sha256").update(bytes).digest("hex") };
    writeFileSync(stampFile, `${JSON.stringify(stamp, undefined, 2)}\n`);
    console.log(`${module.name}.wasm built, ${bytes.length} bytes`);
  }
}

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
