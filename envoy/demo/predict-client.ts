import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import {
  H_AUTHORIZATION,
  H_CONTENT_TYPE,
  H_REASON,
  H_REQUEST_ID,
  H_SERVED_BY,
  H_SERVER_TIMING,
} from "@servemesh/proto/names";
import { parseServerTiming } from "../run/server-timing.js";

/** What came back for one REST predict call. */
export interface PredictAnswer {
  /** HTTP status; 0 when the connection broke. */
  readonly status: number;
  /** First score of the answer. */
  readonly score: number | undefined;
  /** Whole body, for messages. */
  readonly text: string;
  /** `ranker:41`, with `; fallback=…` when it was not the first choice. */
  readonly servedBy: string | undefined;
  /** Why it was refused. */
  readonly reason: string | undefined;
  readonly requestId: string | undefined;
  /** ms by stage. */
  readonly stages: ReadonlyMap<string, number>;
  /** Time at the client, in ms. */
  readonly totalMs: number;
  /** When it was sent, on the clock of performance.now(). */
  readonly sentAtMs: number;
}

/** A user and an item to score. */
export interface Pair {
  readonly userId: number;
  readonly itemId: number;
}

export interface CallOptions {
  /** `ranker` with an alias or version: the part between /v1/models/ and :predict. */
  readonly model?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface PredictClient {
  /** Never rejects: a broken connection is an answer with status 0. */
  predict(pair: Pair, options?: CallOptions): Promise<PredictAnswer>;
  close(): void;
}

/** Connections that one client keeps open, and so how many calls it has under way at most. */
const MAX_SOCKETS = 64;
const CLIENT_TIMEOUT_MS = 10_000;

/**
 * A REST client as an application would write it: TF-Serving's form, kept-alive connections.
 * @param ca PEM of the CA for https
 */
export function createPredictClient(baseUrl: string, apiKey: string, ca?: string): PredictClient {
  const isTls = baseUrl.startsWith("https:");
  const agent = isTls
    ? new HttpsAgent({ keepAlive: true, maxSockets: MAX_SOCKETS, ...(ca === undefined ? {} : { ca }) })
    : new HttpAgent({ keepAlive: true, maxSockets: MAX_SOCKETS });
  const request = isTls ? httpsRequest : httpRequest;
  return {
    predict: (pair, { model = "ranker", headers = {} } = {}) =>
      new Promise((resolve) => {
        const sentAtMs = performance.now();
        const body = JSON.stringify({ instances: [{ user_id: pair.userId, item_id: pair.itemId }] });
        const settle = (response: IncomingMessage | undefined, text: string): void =>
          resolve(readAnswer(response, text, sentAtMs));
        const call = request(
          `${baseUrl}/v1/models/${model}:predict`,
          {
            method: "POST",
            agent,
            timeout: CLIENT_TIMEOUT_MS,
            headers: {
              [H_CONTENT_TYPE]: "application/json",
              "content-length": Buffer.byteLength(body),
              [H_AUTHORIZATION]: `Bearer ${apiKey}`,
              ...headers,
            },
          },
          (response) => {
            const chunks: Buffer[] = [];
            response.on("data", (chunk: Buffer) => chunks.push(chunk));
            response.on("end", () => settle(response, Buffer.concat(chunks).toString()));
            response.on("error", (error) => settle(undefined, error.message));
          },
        );
        call.on("timeout", () => call.destroy(new Error(`no answer within ${CLIENT_TIMEOUT_MS} ms`)));
        call.on("error", (error) => settle(undefined, error.message));
        call.end(body);
      }),
    close: () => agent.destroy(),
  };
}

function readAnswer(response: IncomingMessage | undefined, text: string, sentAtMs: number): PredictAnswer {
  const header = (name: string): string | undefined => {
    const value = response?.headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  };
  return {
    status: response?.statusCode ?? 0,
    score: response?.statusCode === 200 ? readScore(text) : undefined,
    text,
    servedBy: header(H_SERVED_BY),
    reason: header(H_REASON),
    requestId: header(H_REQUEST_ID),
    stages: parseServerTiming(header(H_SERVER_TIMING)),
    totalMs: performance.now() - sentAtMs,
    sentAtMs,
  };
}

function readScore(text: string): number | undefined {
  try {
    const { predictions } = JSON.parse(text) as { predictions?: unknown };
    const score: unknown = (predictions as unknown[][] | undefined)?.[0]?.[0];
    return typeof score === "number" ? score : undefined;
  } catch {
    return undefined;
  }
}
