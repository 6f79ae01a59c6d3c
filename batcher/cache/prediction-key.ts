import { createHash } from "node:crypto";
import type { ParameterValue, Tensor } from "../request.js";

/** Everything that can change an answer, apart from the features (see PredictionCache). */
export interface KeyParts {
  /** Answers are never shared between tenants. */
  readonly tenant: string;
  /** Version, artifact digest, serving spec and transform: one digest per assignment. */
  readonly servingDigest: string;
  readonly inputs: readonly Tensor[];
  readonly requestedOutputs: readonly string[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
}

/**
 * The cache key: the whole SHA-256 (32 bytes as one-byte characters) over length-prefixed parts, so that no two different requests
 * give the same text, and a hit needs no second comparison.
 */
export function predictionKey(parts: KeyParts): string {
  const hash = createHash("sha256");
  const text = (value: string): void => {
    const bytes = Buffer.from(value);
    hash.update(lengthPrefix(bytes.length)).update(bytes);
  };
  text(parts.tenant);
  text(parts.servingDigest);
  hash.update(lengthPrefix(parts.inputs.length));
  for (const tensor of sortedByName(parts.inputs)) {
    text(tensor.name);
    text(`${tensor.datatype}[${tensor.shape.join(",")}]`);
    hash.update(lengthPrefix(tensor.data.length)).update(tensor.data);
  }
  hash.update(lengthPrefix(parts.requestedOutputs.length));
  for (const output of parts.requestedOutputs) text(output);
  hash.update(lengthPrefix(parts.parameters.size));
  for (const [name, value] of [...parts.parameters].sort(([a], [b]) => (a < b ? -1 : 1))) {
    text(name);
    text(typeof value);
    text(String(value));
  }
  return hash.digest("binary");
}

/** Digest of fetched feature rows, one block per view. */
export function featureDigest(blocks: readonly Uint8Array[]): string {
  const hash = createHash("sha256");
  for (const block of blocks) hash.update(lengthPrefix(block.length)).update(block);
  return hash.digest("binary");
}

function sortedByName(tensors: readonly Tensor[]): readonly Tensor[] {
  return tensors.length < 2 ? tensors : [...tensors].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function lengthPrefix(length: number): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeUInt32LE(length >>> 0, 0);
  bytes.writeUInt32LE(Math.floor(length / 2 ** 32), 4);
  return bytes;
}
