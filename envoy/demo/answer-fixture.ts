import type { PredictAnswer } from "./predict-client.js";

/** An answer for tests: good and by v41 unless said otherwise. */
export function answerOf(parts: Partial<PredictAnswer> = {}): PredictAnswer {
  return {
    status: 200,
    score: 0.5,
    text: "",
    servedBy: "ranker:41",
    reason: undefined,
    requestId: "r",
    stages: new Map(),
    totalMs: 1,
    sentAtMs: 0,
    ...parts,
  };
}
