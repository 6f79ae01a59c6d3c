import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ModelVersion, ServingSpec } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { modelsFolder } from "./paths.js";
import { RunError } from "./run-error.js";

/** One trained version as the set-up left it. */
export interface TrainedVersion {
  readonly model: string;
  readonly version: bigint;
  readonly description: string;
  /** Triton repository that holds only this version; absolute. */
  readonly repository: string;
  /** On held-out ratings; undefined for a model that was not trained. */
  readonly auc: number | undefined;
  readonly artifactDigest: string;
  readonly lineage: Readonly<Record<string, string>>;
  readonly serving: ServingSpec;
}

export interface ModelManifest {
  readonly versions: readonly TrainedVersion[];
  /** `--features-dir` of the batchers; absolute. */
  readonly featuresFolder: string;
}

interface ManifestJson {
  readonly versions: readonly {
    readonly model: string;
    readonly version: string;
    readonly description: string;
    readonly repository: string;
    readonly auc?: number;
    readonly artifactDigest: string;
    readonly lineage: Record<string, string>;
    readonly serving: unknown;
  }[];
}

/**
 * Reads what `envoy/demo/models/build.mjs` made.
 * @throws RunError with the remedy when it has not run
 */
export function readModelManifest(folder: string = modelsFolder): ModelManifest {
  const path = join(folder, "manifest.json");
  if (!existsSync(path)) throw new RunError(`the demo's models are missing (${path}); run \`npm run setup\``);
  const manifest = JSON.parse(readFileSync(path, "utf8")) as ManifestJson;
  return {
    featuresFolder: join(folder, "features"),
    versions: manifest.versions.map((entry) => ({
      ...entry,
      version: BigInt(entry.version),
      repository: join(folder, entry.repository),
      auc: entry.auc,
      serving: ServingSpec.fromJSON(entry.serving),
    })),
  };
}

/**
 * The version of a reference such as `ranker:41`.
 * @throws RunError that lists what there is
 */
export function findVersion(manifest: ModelManifest, reference: string): TrainedVersion {
  const found = manifest.versions.find(({ model, version }) => `${model}:${version}` === reference);
  if (found !== undefined) return found;
  const known = manifest.versions.map(({ model, version }) => `${model}:${version}`).join(", ");
  throw new RunError(`version ${reference} is not among the trained ones (${known})`);
}

/** The part of a serving spec that a run may set differently from how the version was built. */
export interface ServingOverrides {
  readonly maxBatchSize?: number;
  readonly maxQueueDelayUs?: number;
  readonly maxQueueSize?: number;
  readonly maxInFlight?: number;
  readonly cacheEnabled?: boolean;
}

/** The registry record of a trained version, with the overrides put in. */
export function versionRecord(trained: TrainedVersion, overrides: ServingOverrides = {}): ModelVersion {
  const { cacheEnabled, ...batching } = overrides;
  const serving = ServingSpec.fromPartial(trained.serving);
  const cache = { maxBytes: 0n, ...serving.cache, enabled: cacheEnabled ?? serving.cache?.enabled ?? false };
  return ModelVersion.fromPartial({
    model: trained.model,
    version: trained.version,
    artifactDigest: trained.artifactDigest,
    lineage: { ...trained.lineage, description: trained.description },
    serving: { ...serving, batching: { ...serving.batching, ...batching }, cache },
  });
}
