import type { LocalMesh } from "../run/local-mesh.js";
import type { Check } from "./check.js";
import type { Pair, PredictClient } from "./predict-client.js";

/** What every story plays with. */
export interface Stage {
  readonly mesh: LocalMesh;
  /** The HTTP door, with the demo's key. */
  readonly client: PredictClient;
  /** A pair that no story has sent before. */
  readonly nextPair: () => Pair;
  /** Aborted by Ctrl-C; long stories look at it. */
  readonly abort: AbortSignal;
}

export interface StoryResult {
  readonly checks: readonly Check[];
  /** What happened, for people; plain lines. */
  readonly lines: readonly string[];
}

/** One thing that the demo plays. */
export interface Story {
  readonly title: string;
  play(stage: Stage): Promise<StoryResult>;
}
