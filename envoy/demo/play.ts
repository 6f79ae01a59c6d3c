import type { LocalMesh } from "../run/local-mesh.js";
import { type Check, checkEqual } from "./check.js";
import { createPairSource } from "./pair-source.js";
import { createPredictClient } from "./predict-client.js";
import { formatStory } from "./report.js";
import { aliasRollback } from "./stories/alias-rollback.js";
import { grpcCall } from "./stories/grpc-call.js";
import { badKey, overDeadline, unknownModel } from "./stories/refusals.js";
import { restCall } from "./stories/rest-call.js";
import { saturationFallback } from "./stories/saturation-fallback.js";
import { shadowPair } from "./stories/shadow-pair.js";
import { sharedBatch } from "./stories/shared-batch.js";
import { trafficSplit } from "./stories/traffic-split.js";
import type { Stage, Story, StoryResult } from "./story.js";

/**
 * In this order: those that read the journal before those that fill it with thousands of records, the split before the
 * rollback that ends it, and saturation last, because it needs v41 alone as the first choice.
 */
const STORIES: readonly Story[] = [
  restCall,
  grpcCall,
  shadowPair,
  sharedBatch,
  overDeadline,
  badKey,
  unknownModel,
  trafficSplit,
  aliasRollback,
  saturationFallback,
];

/** Plays all stories; a story that throws is a failed check and does not keep the others from being played. */
export async function playStories(
  mesh: LocalMesh,
  abort: AbortSignal,
  say: (text: string) => void,
): Promise<readonly Check[]> {
  const client = createPredictClient(mesh.httpUrl, mesh.apiKey);
  const stage: Stage = { mesh, client, nextPair: createPairSource(0), abort };
  const checks: Check[] = [];
  try {
    for (const [index, story] of STORIES.entries()) {
      abort.throwIfAborted();
      const startedMs = performance.now();
      const result = await play(story, stage);
      // The mesh is going down under an interrupted story; what it found means nothing.
      abort.throwIfAborted();
      say(formatStory(index + 1, story.title, result, (performance.now() - startedMs) / 1000));
      checks.push(...result.checks);
    }
  } finally {
    client.close();
  }
  return checks;
}

async function play(story: Story, stage: Stage): Promise<StoryResult> {
  try {
    return await story.play(stage);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { checks: [checkEqual(`${story.title}: played to its end`, message, "")], lines: [] };
  }
}
