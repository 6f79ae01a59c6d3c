import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { open } from "lmdb";
import { featureKey, viewKey } from "./feature-key.js";
import { FEATURE_FILE } from "./lmdb-feature-store.js";

/** One entity's features. */
export interface FeatureRow {
  /** Exact int64. */
  readonly id: bigint;
  /** Exactly the view's width, stored as FP32. */
  readonly values: ArrayLike<number>;
}

/** Fills the embedded feature store. One writer at a time; readers may stay open. */
export interface FeatureWriter {
  /**
   * Replaces a view's rows in one transaction: rows that are not given again are gone.
   * @param width FP32 values per row, at least 1
   * @throws RangeError naming the view and the row that is wrong
   */
  writeView(view: string, width: number, rows: Iterable<FeatureRow>): Promise<void>;
  /** Flushes to disk. */
  close(): Promise<void>;
}

/**
 * Opens (and creates) the embedded feature store of `--features-dir` for writing.
 * @param directory created when missing
 */
export function openFeatureWriter(directory: string): FeatureWriter {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const database = open<Buffer, Buffer>({
    path: join(directory, FEATURE_FILE),
    encoding: "binary",
    keyEncoding: "binary",
  });
  return {
    async writeView(view, width, rows) {
      if (!Number.isInteger(width) || width < 1)
        throw new RangeError(`feature view "${view}": width ${width} is not a positive integer`);
      const start = viewKey(view);
      await database.transaction(() => {
        for (const key of database.getKeys({ start, end: endOf(start) })) database.removeSync(key);
        const stored = Buffer.alloc(4);
        stored.writeUInt32LE(width);
        database.putSync(start, stored);
        for (const row of rows) database.putSync(featureKey(view, row.id), encodeRow(view, width, row));
      });
    },
    async close() {
      await database.flushed;
      await database.close();
    },
  };
}

/** First key behind all keys of a view: the zero byte that ends the name becomes a one. */
function endOf(start: Buffer): Buffer {
  const end = Buffer.from(start);
  end[end.length - 1] = 1;
  return end;
}

function encodeRow(view: string, width: number, row: FeatureRow): Buffer {
  if (row.values.length !== width) {
    throw new RangeError(`feature view "${view}": entity ${row.id} has ${row.values.length} values, expected ${width}`);
  }
  const bytes = Buffer.allocUnsafe(width * 4);
  for (let index = 0; index < width; index += 1) bytes.writeFloatLE(row.values[index] ?? 0, index * 4);
  return bytes;
}
