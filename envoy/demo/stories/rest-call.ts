import { readFileSync } from "node:fs";
import { checkBetween, checkEqual, checkOneOf } from "../check.js";
import { createPredictClient, type PredictAnswer } from "../predict-client.js";
import { formatStages } from "../report.js";
import type { Story } from "../story.js";

/** Stages that every call that was not answered from the cache must tell. */
const STAGES = ["gate", "features", "cache", "transform", "queue", "infer", "demux"];

/** One REST call over plain HTTP, and the same over TLS against the development CA. */
export const restCall: Story = {
  title: "a REST call, over HTTP and over TLS",
  async play({ mesh, client, nextPair }) {
    const plain = await client.predict(nextPair());
    const tlsClient = createPredictClient(
      mesh.httpsUrl,
      mesh.apiKey,
      readFileSync(mesh.certificates.caCertificate, "utf8"),
    );
    const secure = await tlsClient.predict(nextPair());
    tlsClient.close();
    return {
      checks: [...checksOf("rest", plain), ...checksOf("rest over tls", secure)],
      lines: [describe("HTTP", plain), describe("TLS ", secure)],
    };
  },
};

function checksOf(name: string, answer: PredictAnswer) {
  const missing = STAGES.filter((stage) => !answer.stages.has(stage));
  return [
    checkEqual(`${name}: status`, answer.status, 200),
    checkBetween(`${name}: score is a probability`, answer.score ?? Number.NaN, 0, 1),
    checkOneOf(`${name}: served by`, answer.servedBy, ["ranker:41", "ranker:42"]),
    checkEqual(`${name}: stages missing in server-timing`, missing.join(" "), ""),
  ];
}

function describe(door: string, { score, servedBy, stages, totalMs }: PredictAnswer): string {
  return `${door} score ${score?.toFixed(4)} by ${servedBy} in ${totalMs.toFixed(1)} ms: ${formatStages(stages)}`;
}
