import type { Pair } from "./predict-client.js";

/** MovieLens-100K numbers its users and items from 1. */
const USERS = 943;
const ITEMS = 1682;
/** Coprime to the number of pairs, so that stepping by it visits each pair once before any comes again. */
const STEP = 611_953;

/**
 * Pairs of a user and an item, each different from all before (for the first 1.5 million), in an order that depends only
 * on `start`. Different, because an equal one would be answered from the cache.
 */
export function createPairSource(start: number): () => Pair {
  let at = start % (USERS * ITEMS);
  return () => {
    at = (at + STEP) % (USERS * ITEMS);
    return { userId: 1 + Math.floor(at / ITEMS), itemId: 1 + (at % ITEMS) };
  };
}
