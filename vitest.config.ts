import { defineConfig } from "vitest/config";

const NEVER = ["**/node_modules/**", "**/dist/**", "**/build/**", "**/.venv/**", "**/.setup/**", "**/var/**"];

/** Suites that start real Envoys, Tritons and control planes: one file at a time, so that they never fight for two cores. */
const MESH_SUITES = [
  "test/{story,features,integration,conformance}/**/*.test.ts",
  "xds-server/changes-under-load/*.test.ts",
];

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["{proto,wasm-filters,xds-server,batcher,envoy,test}/**/*.test.{ts,mjs}"],
          exclude: [...NEVER, ...MESH_SUITES],
          testTimeout: 30_000,
          hookTimeout: 30_000,
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: "mesh",
          include: MESH_SUITES,
          exclude: NEVER,
          testTimeout: 120_000,
          // Starting a mesh with its models takes a while on a cold machine.
          hookTimeout: 180_000,
          fileParallelism: false,
          // After the unit tests: a broken unit explains a broken mesh better than the other way round.
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
