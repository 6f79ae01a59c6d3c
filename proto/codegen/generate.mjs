/**
 * Writes everything that is derived from .proto sources: TypeScript into proto/gen, the transcoder's descriptor set into
 * proto/descriptors. Only files whose content changed are touched, so an incremental `tsc -b` stays quick.
 *
 * Usage: node proto/codegen/generate.mjs --python <python of the .venv with xds-protos>
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { registrySource } from "./type-registry.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const workDir = join(root, ".setup", "codegen");
const buf = join(root, "node_modules", ".bin", "buf");

function run(command, args) {
  execFileSync(command, args, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
}

function listFiles(dir) {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(dir, join(entry.parentPath ?? entry.path, entry.name)));
}

function writeIfChanged(path, content) {
  try {
    if (readFileSync(path).equals(content)) return;
  } catch {
    mkdirSync(dirname(path), { recursive: true });
  }
  // Rename, so that a compiler running at the same time never reads half a file.
  writeFileSync(`${path}.tmp`, content);
  renameSync(`${path}.tmp`, path);
}

/** Makes `to` equal to `from`; files of `to` that `from` lacks are removed. */
function mirror(from, to) {
  const wanted = new Set(listFiles(from));
  for (const file of wanted) writeIfChanged(join(to, file), readFileSync(join(from, file)));
  for (const file of listFiles(to)) if (!wanted.has(file)) rmSync(join(to, file));
}

function pythonFromArgs(args) {
  const at = args.indexOf("--python");
  const python = at >= 0 ? args[at + 1] : undefined;
  if (!python) throw new Error("generate.mjs: --python <path> is missing; `npm run setup` passes it");
  return python;
}

const python = pythonFromArgs(process.argv.slice(2));
mkdirSync(workDir, { recursive: true });

// A FileDescriptorSet is a list, so two of them concatenate; --exclude-imports keeps a file from standing in it twice.
const dumped = join(workDir, "envoy-wheel.binpb");
const overlay = join(workDir, "envoy-overlay.binpb");
run(python, ["proto/codegen/dump-xds-protos.py", dumped]);
run(buf, ["build", "proto/overlay", "--exclude-imports", "-o", overlay]);
writeFileSync(join(workDir, "envoy-all.binpb"), Buffer.concat([readFileSync(dumped), readFileSync(overlay)]));
const ownPaths = ["servemesh", "inference", "google"].flatMap((dir) => ["--path", `proto/${dir}`]);
run(buf, ["build", "proto", ...ownPaths, "-o", join(workDir, "mesh.binpb")]);
run(buf, ["generate", "--template", "proto/codegen/buf.gen.envoy.yaml"]);
run(buf, ["generate", "--template", "proto/codegen/buf.gen.mesh.yaml"]);

const staged = join(workDir, "gen");
writeFileSync(join(staged, "envoy", "type-registry.ts"), registrySource(join(staged, "envoy"), listFiles));
mirror(staged, mkdirThen(join(root, "proto", "gen")));

// What Envoy's transcoder needs: the REST service with all its imports, nothing else.
const restBinpb = join(workDir, "rest.binpb");
run(buf, ["build", "proto", "--type", "servemesh.rest.v1.RestService", "--as-file-descriptor-set", "-o", restBinpb]);
writeIfChanged(join(root, "proto", "descriptors", "rest.binpb"), readFileSync(restBinpb));
// The whole contract with imports, for tools and tests that read descriptors.
writeIfChanged(join(root, "proto", "descriptors", "mesh.binpb"), readFileSync(join(workDir, "mesh.binpb")));

function mkdirThen(dir) {
  mkdirSync(dir, { recursive: true });
  return dir;
}
