import type { Alias } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { ServingOverrides } from "./model-manifest.js";

/** A model to register. */
export interface ModelContents {
  readonly name: string;
  /** The SLO's limit in ms. */
  readonly deadlineMs: number;
  /** Header for sticky splits; the default one when absent. */
  readonly stickyHeader?: string;
  /** `["*"]` when absent. */
  readonly allowedTenants?: readonly string[];
}

/** A version to register, and whether it may be a primary (`production`) or only a canary or shadow (`staging`). */
export interface VersionContents {
  /** `ranker:41`; must be among the trained ones. */
  readonly reference: string;
  readonly stage: "registered" | "staging" | "production";
  /** What is set differently from how the version was built. */
  readonly serving?: ServingOverrides;
}

export type AliasContents = Pick<Alias, "model" | "alias"> & Partial<Alias>;

/** What a mesh holds when it is ready. */
export interface MeshContents {
  readonly models: readonly ModelContents[];
  readonly versions: readonly VersionContents[];
  readonly aliases: readonly AliasContents[];
  /** A batcher and a Triton each; a version may stand here twice. */
  readonly replicas: readonly string[];
}

/** Name of the tenant whose key the mesh hands out. */
export const TENANT = "demo";

/**
 * The story's mesh: `ranker@prod` is v41 95 % and v42 5 %, falls back to `ranker-lite`, and is shadowed by v43.
 * The limit of 2 s is generous on purpose; a call asks for less by its own header.
 */
export const DEMO_CONTENTS: MeshContents = {
  models: [
    { name: "ranker", deadlineMs: 2_000 },
    { name: "ranker-lite", deadlineMs: 2_000 },
  ],
  versions: [
    { reference: "ranker:41", stage: "production" },
    { reference: "ranker:42", stage: "staging" },
    { reference: "ranker:43", stage: "staging" },
    { reference: "ranker-lite:1", stage: "production" },
  ],
  aliases: [
    {
      model: "ranker",
      alias: "prod",
      split: [
        { version: 41n, weight: 95 },
        { version: 42n, weight: 5 },
      ],
      fallback: ["ranker-lite:1"],
      shadow: { version: 43n, sample: 1 },
    },
    { model: "ranker-lite", alias: "prod", split: [{ version: 1n, weight: 1 }] },
  ],
  replicas: ["ranker:41", "ranker:42", "ranker:43", "ranker-lite:1"],
};
