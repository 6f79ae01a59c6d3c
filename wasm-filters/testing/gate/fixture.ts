import { createHash } from "node:crypto";
import { compileGateConfig } from "../../config/compile.js";
import type { GateConfig } from "../../config/gate-config.js";
import { loadGateModule } from "../../modules/files.js";
import type { HeaderList } from "../header-map.js";
import { createMockHost, type MockHost, type MockHostOptions } from "../mock-host.js";
import type { MockStream } from "../mock-stream.js";

/** Keys of the tenants of `CONFIG`. */
export const ACME_KEY = "sm_acme_0123456789abcdef";
export const BATCHY_KEY = "sm_batchy_0123456789abcd";
export const NOBODY_KEY = "sm_nobody_0123456789abcd";

export function digestOf(key: string): Uint8Array {
  return createHash("sha256").update(key, "latin1").digest();
}

/** Three models and three tenants that between them reach every branch of the stages. */
export const CONFIG: GateConfig = {
  models: [
    {
      name: "ranker",
      defaultAlias: "prod",
      deadlineMs: 2000,
      stickyHeader: "x-predict-sticky-key",
      allowedTenants: ["*"],
      aliases: [
        { name: "prod", shadowCluster: "model/ranker/43" },
        { name: "canary", deadlineMs: 300 },
      ],
      versions: [41n, 42n, 9223372036854775807n],
    },
    {
      name: "ranker-lite",
      defaultAlias: "prod",
      deadlineMs: 500,
      stickyHeader: "x-user",
      allowedTenants: ["acme"],
      aliases: [{ name: "staging" }],
      versions: [1n],
    },
    {
      name: "secret",
      defaultAlias: "prod",
      deadlineMs: 1000,
      stickyHeader: "",
      allowedTenants: [],
      aliases: [{ name: "prod" }],
      versions: [],
    },
  ],
  tenants: [
    { name: "acme", keyDigests: [digestOf(ACME_KEY)], priority: "interactive", models: ["*"] },
    { name: "batchy", keyDigests: [digestOf(BATCHY_KEY)], priority: "batch", models: ["ranker", "ranker-lite"] },
    { name: "nobody", keyDigests: [digestOf(NOBODY_KEY)], priority: "interactive", models: [] },
  ],
};

/** The built gate with a configuration in it. */
export function gateHost(config: GateConfig = CONFIG, options: MockHostOptions = {}): MockHost {
  const host = createMockHost(loadGateModule().bytes, options);
  if (!host.configure(compileGateConfig(config))) throw new Error(`not configured: ${host.logs.at(-1)?.text}`);
  return host;
}

/** A REST request of acme, unless headers say otherwise. */
export function restHeaders(method: string, path: string, more: HeaderList = [["x-api-key", ACME_KEY]]): HeaderList {
  return [[":method", method], [":path", path], [":scheme", "http"], [":authority", "mesh"], ...more];
}

/** A gRPC request of acme, unless headers say otherwise. */
export function grpcHeaders(method: string, more: HeaderList = [["authorization", `Bearer ${ACME_KEY}`]]): HeaderList {
  const path = `/inference.GRPCInferenceService/${method}`;
  return [...restHeaders("POST", path, []), ["content-type", "application/grpc"], ["te", "trailers"], ...more];
}

export function varint(value: number | bigint): Buffer {
  const bytes: number[] = [];
  let rest = BigInt(value);
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

/** A length-delimited field of protobuf. */
export function field(number: number, value: string | Uint8Array): Buffer {
  const bytes = typeof value === "string" ? Buffer.from(value, "latin1") : value;
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

/** A gRPC frame around a message. */
export function frame(message: Uint8Array, flag = 0): Buffer {
  const head = Buffer.alloc(5);
  head[0] = flag;
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** Frame of a ModelInferRequest, or of a model request, with name and version. */
export function named(name: string, version?: string): Buffer {
  return frame(Buffer.concat([field(1, name), ...(version === undefined ? [] : [field(2, version)])]));
}

/** What became of a request: the route it takes, or why it was refused. */
export interface Judgement {
  readonly route?: string | undefined;
  readonly reason?: string | undefined;
  readonly headers: ReadonlyMap<string, string>;
  /** Text of the refusal, without its JSON frame. */
  readonly text?: string | undefined;
  readonly stream: MockStream;
}

/** Sends one request to its end and closes the stream. */
export function judge(host: MockHost, headers: HeaderList, body?: Uint8Array): Judgement {
  const stream = host.openStream();
  let verdict = stream.requestHeaders(headers, body === undefined);
  if (body !== undefined && verdict !== "refused") verdict = stream.requestBody(body, true);
  stream.close();
  const upstream = new Map(stream.upstream.headers);
  if (verdict === "passed") return { route: upstream.get("x-servemesh-route"), headers: upstream, stream };
  if (verdict === "held") throw new Error("the request is held at its end");
  const answer = new Map(stream.reply?.headers);
  const reason = answer.get("x-servemesh-reason");
  const body_ = stream.reply?.body ?? "";
  const text = body_.startsWith("{") ? (JSON.parse(body_) as { error: string }).error : body_;
  return { reason, headers: answer, text, stream };
}

/** Seeded random numbers (mulberry32), so that a failure can be run again. */
export function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}
