import { LRUCache } from "lru-cache";
import type { ParameterValue, Tensor } from "../request.js";

/** A complete answer as it is kept. */
export interface CachedAnswer {
  readonly outputs: readonly Tensor[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  /** Digest of the feature rows that the answer was computed from; empty without features. */
  readonly featureDigest: string;
}

/**
 * Answers by request. The look-up runs while the features are still being fetched, so they cannot be part of the key;
 * instead an entry says which feature values it was computed from, and the pipeline takes it for a hit only when the
 * fetched ones have the same digest. New feature values of an entity thus never meet an old answer: they replace it.
 */
export interface PredictionCache {
  /** May answer at once or later (a remote tier). */
  get(key: string): CachedAnswer | undefined | Promise<CachedAnswer | undefined>;
  /** Only complete successes of the primary leg. The cache copies what it keeps. */
  put(key: string, answer: CachedAnswer): void;
  /** Bytes held. */
  readonly bytes: number;
}

/** Added to an entry's tensors for its key, maps and bookkeeping. */
const ENTRY_OVERHEAD_BYTES = 512;

/** Exact LRU, bounded by bytes. */
export class LruPredictionCache implements PredictionCache {
  private readonly entries: LRUCache<string, CachedAnswer>;

  /** @param maxBytes all entries together; one entry may take an eighth of it */
  constructor(maxBytes: number) {
    this.entries = new LRUCache({
      maxSize: maxBytes,
      maxEntrySize: Math.max(1, Math.floor(maxBytes / 8)),
      sizeCalculation: answerBytes,
    });
  }

  get bytes(): number {
    return this.entries.calculatedSize;
  }

  get(key: string): CachedAnswer | undefined {
    return this.entries.get(key);
  }

  put(key: string, answer: CachedAnswer): void {
    // Outputs are slices of a whole batch's message, which an entry must not keep alive.
    const outputs = answer.outputs.map((tensor) => ({ ...tensor, data: Uint8Array.prototype.slice.call(tensor.data) }));
    this.entries.set(key, { ...answer, outputs });
  }
}

function answerBytes(answer: CachedAnswer): number {
  let bytes = ENTRY_OVERHEAD_BYTES;
  for (const tensor of answer.outputs) bytes += tensor.data.length + 2 * tensor.name.length;
  for (const [name, value] of answer.parameters)
    bytes += 2 * name.length + (typeof value === "string" ? 2 * value.length : 8);
  return bytes;
}
