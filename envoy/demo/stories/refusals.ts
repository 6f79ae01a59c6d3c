import { H_AUTHORIZATION, H_PREDICT_TIMEOUT } from "@servemesh/proto/names";
import { checkEqual } from "../check.js";
import type { PredictAnswer } from "../predict-client.js";
import type { Story, StoryResult } from "../story.js";

/** 1 ms is less than the queue's delay alone, so no answer can be in time. */
export const overDeadline: Story = {
  title: "a call that cannot meet its deadline of 1 ms",
  async play({ client, nextPair }) {
    // Pinned, so that it is always the same queue, and a fresh pair, so that no cache has the answer.
    const answer = await client.predict(nextPair(), {
      model: "ranker/versions/41",
      headers: { [H_PREDICT_TIMEOUT]: "1" },
    });
    return refused("over deadline", answer, 504, "deadline");
  },
};

export const badKey: Story = {
  title: "a call with a key that nobody has",
  async play({ client, nextPair }) {
    const key = "sm_0000000000_not-a-key-of-this-mesh-0000000000000000000";
    const answer = await client.predict(nextPair(), { headers: { [H_AUTHORIZATION]: `Bearer ${key}` } });
    return refused("bad key", answer, 401, "unauthenticated");
  },
};

export const unknownModel: Story = {
  title: "a call of a model that does not exist",
  async play({ client, nextPair }) {
    const answer = await client.predict(nextPair(), { model: "nosuchmodel" });
    return refused("unknown model", answer, 404, "model_not_found");
  },
};

function refused(name: string, answer: PredictAnswer, status: number, reason: string): StoryResult {
  return {
    checks: [
      checkEqual(`${name}: status`, answer.status, status),
      checkEqual(`${name}: reason`, answer.reason, reason),
      checkEqual(`${name}: the body says the same reason`, bodyReason(answer.text), reason),
    ],
    lines: [`${answer.status} ${answer.reason} in ${answer.totalMs.toFixed(1)} ms: ${answer.text.trim()}`],
  };
}

function bodyReason(text: string): string | undefined {
  try {
    const { reason } = JSON.parse(text) as { reason?: unknown };
    return typeof reason === "string" ? reason : undefined;
  } catch {
    return undefined;
  }
}
