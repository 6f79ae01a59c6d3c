/**
 * Trains the demo's models and puts what serving needs under var/models: Triton repositories, the filled feature store and
 * manifest.json. Run by the set-up's last step, which reads `inputs` and `outputs`; everything is built beside the old
 * folder and swapped in at the end, so a run that fails or is interrupted leaves the old models in place.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
const HERE = "envoy/demo/models";
const OUT = "var/models";
const DATA = ".setup/data/ml-100k";
const TRANSFORM = "wasm-filters/build/transform-ranker.wasm";

/** What the models depend on, relative to the root. */
export const inputs = [
  ...["movielens", "feature_views", "wasm_transform", "rankers", "onnx_export", "triton_repository", "train"].map(
    (name) => `${HERE}/${name}.py`,
  ),
  ...[`${HERE}/triton`, `${HERE}/versions.json`, `${HERE}/fill-feature-store.mjs`],
  ...["inter", "user", "item"].map((part) => `${DATA}/ml-100k.${part}`),
  // Another transform makes other features, so the models are trained anew.
  TRANSFORM,
];

/** What the build makes; the set-up runs it again when one is missing. */
export const outputs = [`${OUT}/manifest.json`, `${OUT}/features/features.mdb`, `${OUT}/repositories`];

function run(command, args) {
  // Two threads at most: the training repeats itself exactly only with an equal number of them.
  const threads = String(Math.min(2, availableParallelism()));
  execFileSync(command, args, {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, OMP_NUM_THREADS: threads, OPENBLAS_NUM_THREADS: threads, PYTHONDONTWRITEBYTECODE: "1" },
  });
}

function build() {
  const fresh = join(root, `${OUT}.new`);
  const python = process.env.SERVEMESH_PYTHON ?? join(root, ".venv", "bin", "python");
  for (const needed of [python, join(root, TRANSFORM), join(root, DATA)]) {
    if (!existsSync(needed))
      throw new Error(`${needed} is missing; \`npm run setup\` makes it and then runs this script`);
  }
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { recursive: true });
  run(python, [`${HERE}/train.py`, "--data", DATA, "--transform", TRANSFORM, "--out", fresh]);
  // A process of its own: the store's writer must be gone before batchers open the file read-only.
  run(process.execPath, [`${HERE}/fill-feature-store.mjs`, fresh]);
  const old = `${join(root, OUT)}.old`;
  rmSync(old, { recursive: true, force: true });
  if (existsSync(join(root, OUT))) renameSync(join(root, OUT), old);
  renameSync(fresh, join(root, OUT));
  rmSync(old, { recursive: true, force: true });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  try {
    build();
  } catch (error) {
    // The command's own output, already shown, says what went wrong.
    process.stderr.write(`models: ${error instanceof Error ? error.message : error}\n`);
    process.exitCode = 1;
  }
}
