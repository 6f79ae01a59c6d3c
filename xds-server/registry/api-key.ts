import { createHash } from "node:crypto";

/** Source of cryptographically secure random bytes; injected for tests. */
export type RandomBytes = (size: number) => Uint8Array;

const ID_BYTES = 5;
const SECRET_BYTES = 32;

/** A fresh API key. Only `id` and `sha256` are ever stored; `text` is shown once. */
export interface NewApiKey {
  /** Public, for listing and revoking. */
  readonly id: string;
  /** `sm_<id>_<secret>` with a secret of 256 random bits in base64url. */
  readonly text: string;
  /** Digest of the whole text, which is what the gate compares. */
  readonly sha256: Buffer;
}

export function createApiKey(random: RandomBytes): NewApiKey {
  const id = Buffer.from(random(ID_BYTES)).toString("hex");
  const text = `sm_${id}_${Buffer.from(random(SECRET_BYTES)).toString("base64url")}`;
  return { id, text, sha256: createHash("sha256").update(text).digest() };
}
