import { existsSync } from "node:fs";
import { join } from "node:path";
import { open, type RootDatabase } from "lmdb";
import { featureKey, viewKey } from "./feature-key.js";
import { type FeatureLookup, type FeatureRows, type FeatureStore, FeatureStoreError } from "./feature-store.js";

/** File of the embedded store inside its directory. */
export const FEATURE_FILE = "features.mdb";

/**
 * The embedded store: an LMDB file that a set-up step has written (`openFeatureWriter`) and that any number of batchers
 * read at the same time. Rows come straight from the memory map, so the "round trip" is a page look-up.
 */
export class LmdbFeatureStore implements FeatureStore {
  private readonly database: RootDatabase<Buffer, Buffer>;

  /**
   * @param directory `--features-dir`
   * @throws FeatureStoreError when there is no store
   */
  constructor(private readonly directory: string) {
    const path = join(directory, FEATURE_FILE);
    if (!existsSync(path)) {
      throw new FeatureStoreError(
        `--features-dir: ${path} does not exist; fill it with openFeatureWriter (npm run setup does)`,
      );
    }
    this.database = open<Buffer, Buffer>({ path, readOnly: true, encoding: "binary", keyEncoding: "binary" });
  }

  check(view: string, width: number): void {
    const stored = this.database.get(viewKey(view));
    if (stored === undefined) throw new FeatureStoreError(`feature view "${view}" is not in ${this.directory}`);
    const storedWidth = stored.readUInt32LE(0);
    if (storedWidth !== width) {
      throw new FeatureStoreError(
        `feature view "${view}" has ${storedWidth} values per row, the version's spec says ${width}`,
      );
    }
  }

  async fetch(lookups: readonly FeatureLookup[]): Promise<FeatureRows[]> {
    return lookups.map((lookup) => this.read(lookup));
  }

  close(): Promise<void> {
    return this.database.close();
  }

  private read({ view, width, ids }: FeatureLookup): FeatureRows {
    const rowBytes = width * 4;
    const data = Buffer.alloc(ids.length * rowBytes);
    let missing = 0;
    for (const [row, id] of ids.entries()) {
      const stored = this.database.getBinary(featureKey(view, id));
      if (stored === undefined) missing += 1;
      else if (stored.length !== rowBytes) {
        throw new FeatureStoreError(
          `feature view "${view}": the row of entity ${id} has ${stored.length} bytes, expected ${rowBytes}`,
        );
      } else data.set(stored, row * rowBytes);
    }
    return { data, missing };
  }
}
