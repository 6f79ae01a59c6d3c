import { H_PREDICT_STICKY } from "@servemesh/proto/names";
import type { Stage } from "./story.js";

const MAX_KEYS = 200;

/** Headers that keep a caller on one version of the split, found by trying keys. @throws Error when none leads there */
export async function findStickyHeaders(
  { client, nextPair }: Pick<Stage, "client" | "nextPair">,
  version: string,
): Promise<Record<string, string>> {
  for (let index = 0; index < MAX_KEYS; index += 1) {
    const headers = { [H_PREDICT_STICKY]: `caller-${index}` };
    const { servedBy } = await client.predict(nextPair(), { headers });
    if (servedBy === version) return headers;
  }
  throw new Error(`none of ${MAX_KEYS} sticky keys leads to ${version}`);
}
