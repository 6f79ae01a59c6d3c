/** Users and items of MovieLens-100K. */
const USERS = 943;
const ITEMS = 1682;

/** One instance of the demo's ranker, as the TF-Serving door takes it. */
export interface RankerRow {
  readonly user_id: number;
  readonly item_id: number;
}

/** Rows of known users and items, each different from those before, so that the prediction cache never answers. */
export function rankerRows(from = 0): { next(): RankerRow } {
  let count = from;
  return {
    next() {
      const row = { user_id: 1 + (count % USERS), item_id: 1 + (Math.floor(count / USERS) % ITEMS) };
      count += 1;
      return row;
    },
  };
}
