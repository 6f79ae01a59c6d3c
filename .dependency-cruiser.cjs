/**
 * The import rules of the project. Each rule has a sentence that says why; a breach prints it.
 * The set-up has compiled everything before this runs, so imports of another package resolve to its dist by its exports.
 */

const PACKAGES = "proto|wasm-filters|xds-server|batcher|envoy|test";

/** Tests may see more than the code they test, e.g. check one stage's result with the next. */
const TESTS = "\\.test\\.(ts|mjs)$";

/** A stage of xds-server and the stages after it, which it must not know. */
function stageKnowsNothingLater(stage, later) {
  return {
    name: `xds-server-${stage}-knows-nothing-later`,
    comment: `Data flows registry → plan → translate → snapshot → xds; if ${stage} knew ${later.join(" or ")}, a change there could alter decisions here.`,
    severity: "error",
    from: { path: `^xds-server/${stage}/`, pathNot: TESTS },
    to: { path: `^xds-server/(${later.join("|")})/` },
  };
}

const BATCHER_STAGES = "ingress|features|cache|queue|batch|transform|triton|replica|journal";

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: "no-cycles",
      comment: "Files that import each other, even by types only, can be understood and tested only together.",
      severity: "error",
      from: {},
      to: { circular: true },
    },
    {
      name: "no-unresolved-imports",
      comment: "An import that resolves to nothing is a missing dependency or a missing build.",
      severity: "error",
      from: {},
      to: { couldNotResolve: true },
    },
    {
      name: "no-undeclared-packages",
      comment: "A package that only happens to be installed for somebody else may vanish with the next update.",
      severity: "error",
      from: { pathNot: [TESTS, "^[^/]+\\.config\\.ts$", "^(wasm-filters|envoy/setup)/[^/]+\\.mjs$"] },
      to: { dependencyTypes: ["npm-no-pkg", "npm-unknown"] },
    },
    {
      name: "packages-only-through-exports",
      comment:
        "What a package does not export may change without notice; relative paths into another package bypass that.",
      severity: "error",
      from: { path: `^(${PACKAGES})/`, pathNot: "^wasm-filters/assembly/" },
      to: { path: `^(${PACKAGES})/`, pathNot: ["^$1/", `^(${PACKAGES})/dist/`] },
    },
    {
      name: "proto-imports-nothing",
      comment:
        "proto is the contract that all others share; if it needed one of them, they could not be built or replaced alone.",
      severity: "error",
      from: { path: "^proto/" },
      to: { path: "^(wasm-filters|xds-server|batcher|envoy|test)/" },
    },
    {
      name: "names-import-nothing",
      comment: "names.ts is compiled by AssemblyScript too, which knows neither npm nor our other files.",
      severity: "error",
      from: { path: "^proto/src/names\\.ts$" },
      to: { pathNot: "^proto/src/i32\\.d\\.ts$" },
    },
    {
      name: "wasm-filters-only-proto",
      comment:
        "Filters run inside Envoy and are dry-run by the control plane and the batcher; they must know neither of them.",
      severity: "error",
      from: { path: "^wasm-filters/" },
      to: { path: "^(xds-server|batcher|envoy|test)/" },
    },
    {
      name: "sdk-free-of-servemesh",
      comment: "assembly/proxy-wasm is for everybody who writes filters, so it must not know this mesh.",
      severity: "error",
      from: { path: "^wasm-filters/assembly/proxy-wasm/" },
      to: { path: `^(${PACKAGES})/`, pathNot: "^wasm-filters/assembly/proxy-wasm/" },
    },
    {
      name: "control-plane-and-batcher-apart",
      comment:
        "They meet on the wire only (control.v1), so that each can be upgraded, scaled and tested without the other.",
      severity: "error",
      from: { path: "^(xds-server|batcher)/" },
      to: { path: "^(xds-server|batcher|envoy|test)/", pathNot: "^$1/" },
    },
    {
      name: "nothing-imports-tests",
      comment: "Test code is not product: envoy and the packages must run without the test folder.",
      severity: "error",
      from: { pathNot: "^test/" },
      to: { path: "^test/" },
    },
    {
      name: "no-test-files-in-code",
      comment: "A test file runs its tests when it is imported.",
      severity: "error",
      from: { pathNot: TESTS },
      to: { path: "\\.test\\.(ts|js|mjs)$" },
    },
    stageKnowsNothingLater("registry", ["plan", "translate", "snapshot", "xds"]),
    stageKnowsNothingLater("plan", ["translate", "snapshot", "xds"]),
    stageKnowsNothingLater("translate", ["snapshot", "xds"]),
    stageKnowsNothingLater("snapshot", ["xds"]),
    {
      name: "xds-serves-snapshots-only",
      comment:
        "The server sends bytes by name and version; if it ran code of the plan or the registry, resources could depend on who asks. The types of what it is given may be imported.",
      severity: "error",
      from: { path: "^xds-server/(snapshot|xds)/", pathNot: TESTS },
      to: { path: "^xds-server/(registry|plan|translate)/", dependencyTypesNot: ["type-only"] },
    },
    {
      name: "controllers-change-routing-only-through-the-registry",
      comment:
        "A rollback is a registry write; a controller that reached the later stages could change routing behind the registry's back.",
      severity: "error",
      from: { path: "^xds-server/(rollout|autoscale|drift|judge)/" },
      to: { path: "^xds-server/(plan|translate|snapshot|xds)/" },
    },
    {
      name: "xds-server-platform-is-a-leaf",
      comment: "Clock, logger and files serve every stage, so they must know none.",
      severity: "error",
      from: { path: "^xds-server/platform/" },
      to: { path: "^xds-server/", pathNot: "^xds-server/platform/" },
    },
    {
      name: "xds-server-wiring-is-at-the-top",
      comment:
        "createControlPlane is the only place that wires; a stage that reached it could fetch what it was not given.",
      severity: "error",
      from: { path: "^xds-server/[^/]+/", pathNot: ["^xds-server/(cli|changes-under-load)/", TESTS] },
      to: { path: "^xds-server/(control-plane|main|index)\\.ts$" },
    },
    {
      name: "batcher-stages-apart",
      comment:
        "A stage gets the others as ports from the wiring, so that each is tested alone and the order lives in one place. A port is a type: `import type` may cross.",
      severity: "error",
      from: { path: `^batcher/(${BATCHER_STAGES})/`, pathNot: TESTS },
      to: { path: `^batcher/(${BATCHER_STAGES})/`, pathNot: "^batcher/$1/", dependencyTypesNot: ["type-only"] },
    },
    {
      name: "batcher-platform-is-a-leaf",
      comment: "Clock, logger and addresses serve every stage, so they must know none.",
      severity: "error",
      from: { path: "^batcher/platform/" },
      to: { path: "^batcher/", pathNot: "^batcher/platform/" },
    },
    {
      name: "batcher-wiring-is-at-the-top",
      comment: "createSidecar is the only place that wires; a stage that reached it could fetch what it was not given.",
      severity: "error",
      from: { path: "^batcher/[^/]+/", pathNot: TESTS },
      to: { path: "^batcher/(sidecar|main|index)\\.ts$" },
    },
    {
      name: "set-up-only-node-built-ins",
      comment: "The set-up runs on a fresh clone, before anything is installed or compiled.",
      severity: "error",
      from: { path: "^envoy/setup/", pathNot: TESTS },
      to: { pathNot: "^envoy/setup/", dependencyTypesNot: ["core"] },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.base.json" },
    exclude: { path: "(^|/)(\\.setup|\\.venv|var|coverage)/|^wasm-filters/build/" },
    doNotFollow: { path: "(^|/)(node_modules|dist)/|^proto/gen/" },
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "require", "node", "default", "types"],
      mainFields: ["module", "main", "types"],
    },
  },
};
