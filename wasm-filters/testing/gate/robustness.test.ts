import { ModelInferRequest } from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import { describe, expect, it, vi } from "vitest";
import { compileGateConfig } from "../../config/compile.js";
import { loadGateModule } from "../../modules/files.js";
import { exportGlobals } from "../export-globals.js";
import type { HeaderList } from "../header-map.js";
import { createMockHost, type MockHost } from "../mock-host.js";
import {
  ACME_KEY,
  BATCHY_KEY,
  CONFIG,
  frame,
  gateHost,
  grpcHeaders,
  judge,
  named,
  randomOf,
  restHeaders,
} from "./fixture.js";

// Much work, whatever the machine: the time limit only catches a loop without end.
vi.setConfig({ testTimeout: 300_000 });

type Random = ReturnType<typeof randomOf>;

function randomBytes(random: Random, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => random(256)));
}

/** Sends a body in random pieces, then ends the stream at a random point of its life. */
function sendInPieces(host: MockHost, random: Random, headers: HeaderList, body: Buffer): string {
  const stream = host.openStream();
  let verdict: string = stream.requestHeaders(headers, false);
  let at = 0;
  while (verdict !== "refused" && at < body.length) {
    const size = random(3) === 0 ? body.length - at : Math.min(body.length - at, 1 + random(64));
    at += size;
    const last = at === body.length && random(2) === 0;
    verdict = stream.requestBody(body.subarray(at - size, at), last);
    if (at < body.length || last || verdict === "refused") continue;
    verdict = random(3) === 0 ? stream.requestTrailers([["x-t", "1"]]) : stream.requestBody(Buffer.alloc(0), true);
  }
  if (verdict === "passed" && random(2) === 0) stream.responseHeaders([[":status", "200"]]);
  stream.close();
  return verdict;
}

const VALID = [
  named("ranker"),
  named("ranker@canary", ""),
  named("secret", "41"),
  frame(
    ModelInferRequest.encode(
      ModelInferRequest.fromPartial({
        modelName: "ranker",
        modelVersion: "41",
        id: "request-1",
        parameters: { a: { boolParam: true }, b: { int64Param: -7n } },
        inputs: [{ name: "features", datatype: "FP32", shape: [1n, 4n], contents: { fp32Contents: [1, 2, 3, 4] } }],
        rawInputContents: [Buffer.alloc(48, 5)],
      }),
    ).finish(),
  ),
];

function mutated(random: Random): Buffer {
  const body = Buffer.from(VALID[random(VALID.length)] as Buffer);
  for (let change = random(4); change >= 0; change--) {
    const at = random(body.length);
    body[at] = random(2) === 0 ? random(256) : (body[at] as number) ^ (1 << random(8));
  }
  switch (random(5)) {
    case 0:
      return body.subarray(0, random(body.length + 1));
    case 1:
      return Buffer.concat([body, randomBytes(random, random(40))]);
    case 2:
      // The frame's length fits again, so that the fields themselves are read.
      body[0] = 0;
      body.writeUInt32BE(body.length - 5, 1);
      return body;
    default:
      return body;
  }
}

describe("100,000 random bodies", () => {
  it("never trap: 50,000 of random bytes and 50,000 damaged messages, in random pieces", () => {
    const random = randomOf(20_261_130);
    const host = gateHost();
    const verdicts = new Map<string, number>();
    for (let round = 0; round < 100_000; round++) {
      let body: Buffer;
      if (round % 2 === 0) body = mutated(random);
      else if (round % 4 === 1) body = randomBytes(random, random(120));
      else body = frame(randomBytes(random, random(120)));
      const method = ["ModelInfer", "ModelInfer", "ModelReady", "ServerLive"][random(4)] as string;
      const verdict = sendInPieces(host, random, grpcHeaders(method), body);
      verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1);
    }
    expect(verdicts.get("passed")).toBeGreaterThan(5000);
    expect(verdicts.get("refused")).toBeGreaterThan(20_000);
    expect(judge(host, grpcHeaders("ModelInfer"), named("ranker")).route).toBe("ranker/prod");
  });

  it("of the prefix's size and beyond never trap either", () => {
    const random = randomOf(3);
    const host = gateHost();
    for (let round = 0; round < 2000; round++) {
      const body = frame(
        Buffer.concat([(VALID[round % 4] as Buffer).subarray(5), randomBytes(random, 4000 + random(300))]),
      );
      sendInPieces(host, random, grpcHeaders("ModelInfer"), body);
    }
  });
});

describe("random headers", () => {
  it("never trap: 20,000 of random names, values, paths and repetitions", () => {
    const random = randomOf(11);
    const host = gateHost();
    const text = (most: number) =>
      Buffer.from(
        randomBytes(random, random(most)).map((byte) => (byte === 0 || byte === 10 || byte === 13 ? 64 : byte)),
      ).toString("latin1");
    const words = [
      "v1",
      "v2",
      "models",
      "ranker",
      "ranker@prod",
      "ranker:41",
      "versions",
      "41",
      "labels",
      "infer",
      "predict",
      "ranker:predict",
      "health",
      "live",
      "%40",
      "?",
      "",
      ":",
      "%",
    ];
    const names = [
      "authorization",
      "x-api-key",
      "content-type",
      "content-encoding",
      "grpc-timeout",
      "x-predict-timeout-ms",
      "x-predict-priority",
      "x-predict-sticky-key",
      "x-a",
    ];
    const values = [
      "application/grpc",
      "application/grpc+",
      "application/json",
      `Bearer ${ACME_KEY}`,
      ACME_KEY,
      "10m",
      "80",
      "batch",
      "",
    ];
    for (let round = 0; round < 20_000; round++) {
      const path =
        random(4) === 0
          ? text(60)
          : `/${Array.from({ length: random(7) }, () => words[random(words.length)]).join("/")}`;
      const more = Array.from(
        { length: random(8) },
        () =>
          [
            names[random(names.length)] as string,
            random(3) === 0 ? text(40) : (values[random(values.length)] as string),
          ] as const,
      );
      const stream = host.openStream();
      const verdict = stream.requestHeaders(
        restHeaders(["GET", "POST", "HEAD", ""][random(4)] as string, path, more),
        random(2) === 0,
      );
      if (verdict !== "refused" && !stream.upstream.ended) stream.requestBody(VALID[random(4)] as Buffer, true);
      stream.close();
    }
  });

  it("of the answer never trap, nor do its bodies: 20,000", () => {
    const random = randomOf(12);
    const host = gateHost();
    const names = [
      "content-type",
      "content-length",
      "grpc-status",
      "server-timing",
      "x-servemesh-reason",
      "x-servemesh-load",
      "grpc-message",
      "x-a",
    ];
    const values = [
      "application/json",
      "application/json; charset=utf-8",
      "0",
      "8",
      "99",
      "infer;dur=1",
      "quota",
      "",
      "\xff",
    ];
    const bodies = ['{"code":8,"message":"full"}', '{"code":8,"message":"a\\"b"}', "{}", ""];
    for (let round = 0; round < 20_000; round++) {
      const stream = host.openStream();
      if (random(8) !== 0)
        stream.requestHeaders(
          random(2) === 0 ? restHeaders("GET", "/v2/health/live") : grpcHeaders("ServerLive"),
          false,
        );
      const headers = Array.from(
        { length: random(8) },
        () => [names[random(names.length)] as string, values[random(values.length)] as string] as const,
      );
      if (stream.reply) throw new Error("these requests pass");
      stream.responseHeaders([[":status", ["200", "404", "429", "503", "x", ""][random(6)] as string], ...headers]);
      const body = Buffer.from(bodies[random(4)] as string);
      if (body.length > 0 && random(2) === 0) body[random(body.length)] = random(256);
      const cut = random(body.length + 1);
      if (cut > 0) stream.responseBody(body.subarray(0, cut), false);
      if (random(4) > 0) stream.responseBody(body.subarray(cut), true);
      stream.close();
    }
  });
});

describe("memory", () => {
  /** Live bytes of the garbage collector's objects, and the free lists of the allocator. */
  const GLOBALS = ["~lib/rt/itcms/total", "~lib/rt/tlsf/ROOT"] as const;
  const TLSF_ROOT_BYTES = 4 + 23 * 4 + 23 * 16 * 4 + 4;

  it("is flat over 100,000 requests of every kind: no managed object, no block of the heap, no page", () => {
    const host = createMockHost(exportGlobals(loadGateModule().bytes, GLOBALS));
    expect(host.configure(compileGateConfig(CONFIG))).toBe(true);
    const json = Buffer.from('{"code":8,"message":"queue is full"}');
    const round = (index: number): void => {
      const rest = host.openStream();
      rest.requestHeaders(
        restHeaders("POST", "/v1/models/ranker%40prod:predict?a=b", [
          ["authorization", `Bearer ${ACME_KEY}`],
          ["x-predict-timeout-ms", "80"],
          ["x-predict-sticky-key", String(index)],
        ]),
      );
      rest.requestBody(json, true);
      rest.responseHeaders([
        [":status", "429"],
        ["content-type", "application/json"],
        ["x-servemesh-load", "l"],
        ["grpc-status", "8"],
      ]);
      rest.responseBody(json, true);
      rest.close();
      const grpc = host.openStream();
      grpc.requestHeaders(
        grpcHeaders("ModelInfer", [
          ["x-api-key", BATCHY_KEY],
          ["grpc-timeout", "80m"],
        ]),
      );
      grpc.requestBody(VALID[index % 4] as Buffer, true);
      if (!grpc.reply)
        grpc.responseHeaders([
          [":status", "200"],
          ["server-timing", "infer;dur=1"],
        ]);
      grpc.close();
      judge(host, restHeaders("POST", "/v2/models/ranker/infer", []), json);
      judge(host, restHeaders("GET", "/v2/health/live", []));
    };
    for (let index = 0; index < 100; index++) round(index);
    const state = () => ({
      memoryBytes: host.memoryBytes,
      managedBytes: host.global(GLOBALS[0]),
      freeLists: host.memoryAt(host.global(GLOBALS[1]), TLSF_ROOT_BYTES).toString("hex"),
    });
    const before = state();
    expect(before.managedBytes).toBeGreaterThanOrEqual(0);
    for (let index = 0; index < 25_000; index++) round(index);
    expect(state()).toEqual(before);
  });

  it("grows with the streams that live at once, and is used again afterwards", () => {
    const host = gateHost();
    const crowd = (): number => {
      const streams = Array.from({ length: 20_000 }, () => host.openStream());
      for (const stream of streams) stream.requestHeaders(grpcHeaders("ModelInfer"));
      const passed = streams.filter((stream) => stream.requestBody(named("ranker"), true) === "passed");
      expect(passed.length).toBe(streams.length);
      for (const stream of streams) stream.close();
      return host.memoryBytes;
    };
    const settled = crowd();
    expect(crowd()).toBe(settled);
    expect(settled).toBeLessThan(8 * 1024 * 1024);
  });
});
