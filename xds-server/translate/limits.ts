/**
 * One limit counts at every door, `body_size_limit` at the head of the chain. What stands behind it must hold a little
 * more, or a body just below the limit would fail there with another answer.
 */
const HEADROOM_BYTES = 64 * 1024;

/** Bytes that Envoy may hold of one request: for a retry, and in the transcoder. */
export function bufferLimitOf(maxRequestBytes: number): number {
  return maxRequestBytes + HEADROOM_BYTES;
}

/** Largest answer of a REST door in bytes; tensors out can be larger than tensors in. */
export const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;
