/** Rows wanted from one view. */
export interface FeatureLookup {
  readonly view: string;
  /** FP32 values of one row. */
  readonly width: number;
  /** Entity ids, one per row; exact 64-bit. */
  readonly ids: readonly bigint[];
}

/** What one look-up gave. */
export interface FeatureRows {
  /** FP32 little-endian, `ids.length` x `width`; the row of an unknown entity is zeros. */
  readonly data: Uint8Array;
  /** How many entities were unknown. */
  readonly missing: number;
}

/** A store that cannot answer or holds something else than the spec says; `message` names the view and the problem. */
export class FeatureStoreError extends Error {
  override readonly name = "FeatureStoreError";
}

/** Online features by view and entity id. Adapters may be called concurrently. */
export interface FeatureStore {
  /**
   * All views of one request in one round trip; answers stand in the order of the look-ups.
   * @throws FeatureStoreError (as a rejection)
   */
  fetch(lookups: readonly FeatureLookup[]): Promise<FeatureRows[]>;
  /**
   * Checks at assignment that a view exists with this width, so that a wrong spec never reaches a request.
   * @throws FeatureStoreError
   */
  check(view: string, width: number): void;
  close(): Promise<void>;
}
