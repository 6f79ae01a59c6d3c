import { type FeatureLookup, type FeatureRows, type FeatureStore, FeatureStoreError } from "./feature-store.js";

/** A feature store in memory, for tests and small tools. */
export class MemoryFeatureStore implements FeatureStore {
  private readonly views = new Map<string, { width: number; rows: Map<bigint, readonly number[]> }>();
  /** Round trips so far. */
  fetches = 0;

  /** @param delay awaited before each answer, for example on virtual time */
  constructor(private readonly delay: () => Promise<void> = () => Promise.resolve()) {}

  /** Adds or replaces one row. */
  put(view: string, id: bigint, values: readonly number[]): this {
    const entry = this.views.get(view) ?? { width: values.length, rows: new Map<bigint, readonly number[]>() };
    entry.rows.set(id, values);
    this.views.set(view, entry);
    return this;
  }

  check(view: string, width: number): void {
    const entry = this.views.get(view);
    if (entry === undefined) throw new FeatureStoreError(`feature view "${view}" is not in memory`);
    if (entry.width !== width) {
      throw new FeatureStoreError(
        `feature view "${view}" has ${entry.width} values per row, the version's spec says ${width}`,
      );
    }
  }

  async fetch(lookups: readonly FeatureLookup[]): Promise<FeatureRows[]> {
    this.fetches += 1;
    await this.delay();
    return lookups.map((lookup) => this.read(lookup));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  private read({ view, width, ids }: FeatureLookup): FeatureRows {
    const data = Buffer.alloc(ids.length * width * 4);
    let missing = 0;
    for (const [row, id] of ids.entries()) {
      const values = this.views.get(view)?.rows.get(id);
      if (values === undefined) missing += 1;
      for (const [column, value] of (values ?? []).entries()) data.writeFloatLE(value, (row * width + column) * 4);
    }
    return { data, missing };
  }
}
