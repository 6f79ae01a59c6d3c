import { REFUSAL_STATUS } from "@servemesh/proto/refusal";
import { describe, expect, it } from "vitest";
import type { HeaderList } from "../header-map.js";
import type { MockStream } from "../mock-stream.js";
import { gateHost, grpcHeaders, named, restHeaders } from "./fixture.js";

const host = gateHost();

function restStream(): MockStream {
  const stream = host.openStream();
  stream.requestHeaders(restHeaders("POST", "/v1/models/ranker:predict"));
  stream.requestBody(Buffer.from("{}"), true);
  return stream;
}

function grpcStream(): MockStream {
  const stream = host.openStream();
  stream.requestHeaders(grpcHeaders("ModelInfer"));
  stream.requestBody(named("ranker"), true);
  return stream;
}

/** The answer that a REST client gets for what the mesh sent, in pieces. */
function answer(status: string, body: string | readonly string[], more: HeaderList = []) {
  const stream = restStream();
  const length = [body].flat().join("").length;
  stream.responseHeaders([
    [":status", status],
    ["content-type", "application/json"],
    ["content-length", String(length)],
    ...more,
  ]);
  const pieces = [body].flat();
  for (const [index, piece] of pieces.entries()) stream.responseBody(Buffer.from(piece), index === pieces.length - 1);
  stream.close();
  return { headers: new Map(stream.client.headers), body: stream.client.body.toString(), ended: stream.client.ended };
}

describe("response headers", () => {
  it("of gRPC do not reach REST clients; the load report reaches nobody", () => {
    const leaked: HeaderList = [
      ["grpc-status", "0"],
      ["grpc-message", ""],
      ["grpc-encoding", "identity"],
      ["grpc-accept-encoding", "gzip"],
    ];
    const { headers } = answer("200", "{}", [
      ...leaked,
      ["x-servemesh-load", "41:120"],
      ["x-servemesh-served-by", "ranker:41"],
      ["x-request-id", "r"],
    ]);
    expect([...headers.keys()]).toEqual([
      ":status",
      "content-type",
      "content-length",
      "x-servemesh-served-by",
      "x-request-id",
      "server-timing",
    ]);
    const grpc = grpcStream();
    grpc.responseHeaders([
      [":status", "200"],
      ["content-type", "application/grpc"],
      ["grpc-encoding", "identity"],
      ["x-servemesh-load", "a"],
      ["x-servemesh-load", "b"],
    ]);
    grpc.close();
    expect(grpc.client.headers.map(([name]) => name)).toEqual([
      ":status",
      "content-type",
      "grpc-encoding",
      "server-timing",
    ]);
  });

  it("say how long the gate took, behind the batcher's stages", () => {
    // The clock of the host steps by 1 µs at each reading, twice per callback.
    expect(answer("200", "{}", [["server-timing", "queue;dur=1.2, infer;dur=11"]]).headers.get("server-timing")).toBe(
      "queue;dur=1.2, infer;dur=11, gate;dur=0.001",
    );
    expect(answer("200", "{}").headers.get("server-timing")).toBe("gate;dur=0.001");
    const grpc = grpcStream();
    grpc.responseHeaders([
      [":status", "200"],
      ["server-timing", "infer;dur=11"],
    ]);
    expect(new Map(grpc.client.headers).get("server-timing")).toBe("infer;dur=11, gate;dur=0.002");
    const lines = restStream();
    lines.responseHeaders(
      [
        [":status", "200"],
        ["server-timing", "queue;dur=1"],
        ["server-timing", "infer;dur=2"],
      ],
      true,
    );
    expect(lines.client.headers.filter(([name]) => name === "server-timing").map(([, value]) => value)).toEqual([
      "queue;dur=1",
      "infer;dur=2",
      "gate;dur=0.001",
    ]);
  });

  it("gate time above a millisecond is written with its milliseconds", () => {
    let nowNs = 0n;
    const slow = gateHost(undefined, { clockNs: () => (nowNs += 12_034_567n) });
    const stream = slow.openStream();
    stream.requestHeaders(restHeaders("GET", "/v2/health/live"), true);
    stream.responseHeaders([[":status", "200"]], true);
    expect(new Map(stream.client.headers).get("server-timing")).toBe("gate;dur=12.034");
  });

  it("an answer to a stream that the gate never saw is left alone", () => {
    const stream = host.openStream();
    const headers: HeaderList = [
      [":status", "431"],
      ["grpc-status", "8"],
      ["content-type", "application/json"],
    ];
    stream.responseHeaders(headers);
    stream.responseBody(Buffer.from('{"code":8,"message":"x"}'), true);
    expect(stream.client.headers).toEqual(headers);
    expect(stream.client.body.toString()).toBe('{"code":8,"message":"x"}');
    stream.close();
  });
});

describe("error bodies at REST doors", () => {
  const transcoded = '{"code":8,"message":"queue of ranker:41 is full"}';

  it("get the form that clients of KServe, Triton and TF-Serving read", () => {
    const { headers, body, ended } = answer("429", transcoded, [
      ["x-servemesh-reason", "overloaded"],
      ["grpc-status", "8"],
    ]);
    expect(JSON.parse(body)).toEqual({ error: "queue of ranker:41 is full", code: 8, reason: "overloaded" });
    expect(headers.has("content-length")).toBe(false);
    expect(headers.get("x-servemesh-reason")).toBe("overloaded");
    expect(ended).toBe(true);
  });

  it.each(Object.entries(REFUSAL_STATUS))("keep the reason %s", (reason, { http, grpc }) => {
    const { body } = answer(String(http), `{"code":${grpc},"message":"m"}`, [
      ["x-servemesh-reason", reason],
      ["grpc-status", String(grpc)],
    ]);
    expect(JSON.parse(body)).toEqual({ error: "m", code: grpc, reason });
  });

  it.each<[string, string | undefined, string]>([
    ["400", "3", "bad_input"],
    ["401", "16", "unauthenticated"],
    ["403", "7", "forbidden"],
    ["404", "5", "model_not_found"],
    ["404", undefined, "path_not_found"],
    ["408", undefined, "deadline"],
    ["429", "8", "overloaded"],
    ["500", "13", "internal"],
    ["500", "2", "internal"],
    ["501", "12", "path_not_found"],
    ["503", "14", "unavailable"],
    ["504", "4", "deadline"],
    ["413", undefined, "too_large"],
    ["415", undefined, "unsupported_media_type"],
    ["502", undefined, "internal"],
    ["418", undefined, "bad_input"],
    ["405", undefined, "method_not_allowed"],
    ["503", undefined, "unavailable"],
    ["431", undefined, "too_large"],
  ])("of HTTP %s with gRPC status %s and no reason are %s", (status, grpcStatus, reason) => {
    const { headers, body } = answer(status, transcoded, grpcStatus === undefined ? [] : [["grpc-status", grpcStatus]]);
    expect(headers.get("x-servemesh-reason")).toBe(reason);
    expect(JSON.parse(body)).toMatchObject({ reason });
  });

  it("keep the header but fall back for an unknown reason, which must not reach the body unescaped", () => {
    const { headers, body } = answer("503", transcoded, [
      ["x-servemesh-reason", 'new"word'],
      ["grpc-status", "14"],
    ]);
    expect(headers.get("x-servemesh-reason")).toBe('new"word');
    expect(JSON.parse(body)).toMatchObject({ reason: "unavailable" });
  });

  it("keep an escaped text exactly", () => {
    const message = 'line\n"quoted" \\ back\u0001 日本';
    const { body } = answer(
      "400",
      `{"code":3,"message":${JSON.stringify(message)},"details":[{"@type":"x","a":"\\"}"}]}`,
      [["x-servemesh-reason", "bad_input"]],
    );
    expect(JSON.parse(body)).toEqual({ error: message, code: 3, reason: "bad_input" });
  });

  it("come in pieces", () => {
    expect(JSON.parse(answer("429", [...transcoded]).body)).toMatchObject({ error: "queue of ranker:41 is full" });
    expect(JSON.parse(answer("429", [transcoded.slice(0, 9), transcoded.slice(9), ""]).body)).toMatchObject({
      code: 8,
    });
  });

  it.each([
    ["another form", '{"error":"x","code":8,"reason":"quota"}'],
    ["no JSON", "upstream request timeout"],
    ["an empty body", ""],
    ["a cut body", '{"code":8,"message":"abc'],
    ["a text that ends in a backslash", '{"code":8,"message":"abc\\'],
    ["no code", '{"code":,"message":"x"}'],
    ["a negative code", '{"code":-1,"message":"x"}'],
    ["spaces", '{"code": 8, "message": "x"}'],
    ["another order", '{"message":"x","code":8}'],
    ["only the head", '{"code":8'],
    ["a message that is no text", '{"code":8,"message":7}'],
  ])("with %s pass as they are", (_, text) => {
    expect(answer("429", text).body).toBe(text);
  });

  it("pass as they are beyond 8 KiB, in one piece or many, and are rewritten at 8 KiB", () => {
    const of = (length: number) => `{"code":3,"message":"${"x".repeat(length - 23)}"}`;
    expect(of(8192).length).toBe(8192);
    expect(JSON.parse(answer("400", of(8192)).body)).toMatchObject({ error: "x".repeat(8192 - 23) });
    expect(answer("400", of(8193)).body).toBe(of(8193));
    const big = of(200_000);
    const pieces = Array.from({ length: 50 }, (_, index) => big.slice(index * 4000, (index + 1) * 4000));
    expect(answer("400", pieces).body).toBe(big);
  });

  it("are touched neither for success, nor for another content type, nor at the gRPC door", () => {
    expect(answer("200", transcoded)).toMatchObject({ body: transcoded });
    expect(answer("200", transcoded).headers.get("content-length")).toBe(String(transcoded.length));
    expect(answer("200", transcoded).headers.has("x-servemesh-reason")).toBe(false);
    const plain = restStream();
    plain.responseHeaders([
      [":status", "503"],
      ["content-type", "text/plain"],
      ["content-length", "49"],
    ]);
    plain.responseBody(Buffer.from(transcoded), true);
    expect(plain.client.body.toString()).toBe(transcoded);
    expect(plain.client.headers).toContainEqual(["content-length", "49"]);
    expect(plain.client.headers).toContainEqual(["x-servemesh-reason", "unavailable"]);
    const grpc = grpcStream();
    grpc.responseHeaders([
      [":status", "503"],
      ["content-type", "application/json"],
    ]);
    grpc.responseBody(Buffer.from(transcoded), true);
    expect(grpc.client.body.toString()).toBe(transcoded);
  });

  it("an error without a body keeps its headers and gets its reason", () => {
    const stream = restStream();
    stream.responseHeaders(
      [
        [":status", "504"],
        ["content-type", "application/json"],
        ["content-length", "0"],
      ],
      true,
    );
    expect(stream.client.headers).toContainEqual(["content-length", "0"]);
    expect(stream.client.headers).toContainEqual(["x-servemesh-reason", "deadline"]);
  });

  it("a gRPC error gets a reason where it has none", () => {
    const stream = grpcStream();
    stream.responseHeaders(
      [
        [":status", "200"],
        ["content-type", "application/grpc"],
        ["grpc-status", "4"],
        ["grpc-message", "late"],
      ],
      true,
    );
    expect(stream.client.headers).toContainEqual(["x-servemesh-reason", "deadline"]);
    expect(stream.client.headers).toContainEqual(["grpc-message", "late"]);
  });
});
