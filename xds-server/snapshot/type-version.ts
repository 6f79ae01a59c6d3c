import { contentHash, type Resource } from "./resource.js";

/** 128 bits, as `contentHash` gives. */
const MODULUS = 1n << 128n;
const HEX_DIGITS = 32;

/**
 * Sum of one hash per resource, so that one change costs one subtraction and one addition. The order does not count, and
 * equal resources give equal sums on every replica and after every restart.
 */
export type TypeSum = bigint;

export const EMPTY_SUM: TypeSum = 0n;

export function plusResource(sum: TypeSum, resource: Resource): TypeSum {
  return (sum + shareOf(resource)) % MODULUS;
}

export function minusResource(sum: TypeSum, resource: Resource): TypeSum {
  return (sum - shareOf(resource) + MODULUS) % MODULUS;
}

export function formatTypeVersion(sum: TypeSum): string {
  return sum.toString(16).padStart(HEX_DIGITS, "0");
}

/** Name and content together: two resources that swap their contents must not cancel out. */
function shareOf({ name, version }: Resource): bigint {
  return BigInt(`0x${contentHash(`${name} ${version}`)}`);
}
