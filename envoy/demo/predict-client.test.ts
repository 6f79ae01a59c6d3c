import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { createPredictClient, type PredictClient } from "./predict-client.js";

let server: Server | undefined;
let client: PredictClient | undefined;
afterEach(async () => {
  client?.close();
  server?.closeAllConnections();
  await new Promise((resolve) => (server === undefined ? resolve(undefined) : server.close(resolve)));
});

async function connect(listener: RequestListener): Promise<PredictClient> {
  const started = createServer(listener);
  server = started;
  await new Promise<void>((resolve) => started.listen(0, "127.0.0.1", resolve));
  client = createPredictClient(`http://127.0.0.1:${(started.address() as AddressInfo).port}`, "the-key");
  return client;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

describe("createPredictClient", () => {
  it("sends TF-Serving's form with the key and reads what the mesh says", async () => {
    const seen: unknown[] = [];
    const caller = await connect(async (request, response) => {
      seen.push(request.url, request.headers.authorization, request.headers["x-own"], await bodyOf(request));
      response.setHeader("x-servemesh-served-by", "ranker:41");
      response.setHeader("server-timing", "queue;dur=4.2, gate;dur=0.1");
      response.setHeader("x-request-id", "r-1");
      response.end('{"predictions":[[0.75]]}');
    });
    const answer = await caller.predict({ userId: 196, itemId: 242 }, { headers: { "x-own": "1" } });
    expect(seen).toEqual([
      "/v1/models/ranker:predict",
      "Bearer the-key",
      "1",
      '{"instances":[{"user_id":196,"item_id":242}]}',
    ]);
    expect(answer).toMatchObject({ status: 200, score: 0.75, servedBy: "ranker:41", requestId: "r-1" });
    expect([...answer.stages]).toEqual([
      ["queue", 4.2],
      ["gate", 0.1],
    ]);
  });

  it("gives the reason of a refusal, and no score", async () => {
    const caller = await connect((_, response) => {
      response.writeHead(429, { "x-servemesh-reason": "overloaded" }).end('{"predictions":[[1]]}');
    });
    const answer = await caller.predict({ userId: 1, itemId: 1 });
    expect([answer.status, answer.reason, answer.score]).toEqual([429, "overloaded", undefined]);
  });

  it("gives no score for an answer in another form", async () => {
    const caller = await connect((_, response) => response.end('{"predictions":[]}'));
    expect((await caller.predict({ userId: 1, itemId: 1 })).score).toBeUndefined();
  });

  it("answers with status 0 when the connection breaks, so that it counts as a failed call", async () => {
    const caller = await connect((request) => request.socket.destroy());
    const answer = await caller.predict({ userId: 1, itemId: 1 });
    expect([answer.status, answer.servedBy]).toEqual([0, undefined]);
    expect(answer.text).not.toBe("");
  });
});
