/** A built transform module: pure, deterministic, the same bytes in training and in serving. */
export interface Transform {
  readonly name: string;
  /** Of the module's bytes. */
  readonly digest: string;
  /** FP32 values per row of each view, in the order of `run`'s `views`. */
  readonly viewWidths: readonly number[];
  /** FP32 values per row of the result. */
  readonly outputWidth: number;
  /**
   * @param views one FP32 little-endian block per feature view, `rows` rows each
   * @returns FP32 little-endian, `rows` rows
   */
  run(rows: number, views: readonly Uint8Array[]): Uint8Array;
}
