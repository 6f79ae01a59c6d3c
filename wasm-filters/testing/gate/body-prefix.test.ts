import { ModelInferRequest } from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import { describe, expect, it } from "vitest";
import { ACME_KEY, field, frame, gateHost, grpcHeaders, judge, named, varint } from "./fixture.js";

const host = gateHost();

function infer(body: Uint8Array | undefined, method = "ModelInfer") {
  return judge(host, grpcHeaders(method), body);
}

/** Sends a body in pieces; the verdict after each piece. */
function inPieces(pieces: readonly Uint8Array[]) {
  const stream = host.openStream();
  const verdicts: string[] = [stream.requestHeaders(grpcHeaders("ModelInfer"))];
  pieces.forEach((piece, index) => {
    if (verdicts.at(-1) !== "refused") verdicts.push(stream.requestBody(piece, index === pieces.length - 1));
  });
  stream.close();
  return { verdicts, stream };
}

function routeOf(stream: ReturnType<typeof inPieces>["stream"]): string | undefined {
  return stream.upstream.headers.find(([name]) => name === "x-servemesh-route")?.[1];
}

const PADDING = field(3, "i".repeat(6000));

describe("the name in the body of a gRPC call", () => {
  it("is read from what a real encoder writes, of any size", () => {
    const request = ModelInferRequest.fromPartial({
      modelName: "ranker@canary",
      id: "42",
      inputs: [{ name: "user_id", datatype: "INT64", shape: [1n, 1n] }],
      rawInputContents: [Buffer.alloc(1_500_000, 7)],
    });
    const body = frame(ModelInferRequest.encode(request).finish());
    const { route, stream } = infer(body);
    expect(route).toBe("ranker/canary");
    expect(stream.upstream.body.equals(body)).toBe(true);
  });

  it("is read wherever it stands in the prefix, with unknown fields of every wire type before it", () => {
    const before = Buffer.concat([
      Buffer.concat([varint(9 * 8), varint(300)]),
      Buffer.concat([varint(10 * 8 + 1), Buffer.alloc(8)]),
      Buffer.concat([varint(11 * 8 + 5), Buffer.alloc(4)]),
      field(536870911, "x"),
    ]);
    expect(infer(frame(Buffer.concat([before, field(2, "41"), field(1, "ranker")]))).route).toBe("ranker/41");
  });

  it.each<[string, Uint8Array | undefined]>([
    ["no body at all", undefined],
    ["an empty body", Buffer.alloc(0)],
    ["half a frame head", Buffer.from([0, 0, 0])],
    ["a frame without its message", frame(field(1, "ranker")).subarray(0, 5)],
    ["a message cut short", named("ranker").subarray(0, 9)],
    ["a compressed frame", frame(field(1, "ranker"), 1)],
    ["an unknown flag", frame(field(1, "ranker"), 2)],
    ["an empty message", frame(Buffer.alloc(0))],
    ["no name", frame(field(2, "41"))],
    ["an empty name", named("")],
    ["a name of another wire type", frame(Buffer.concat([varint(1 * 8), varint(5)]))],
    ["a version of another wire type", frame(Buffer.concat([field(1, "ranker"), varint(2 * 8), varint(41)]))],
    ["a repeated name", frame(Buffer.concat([field(1, "ranker"), field(1, "ranker")]))],
    ["an empty and a real name", frame(Buffer.concat([field(1, ""), field(1, "ranker")]))],
    ["a repeated version", frame(Buffer.concat([field(1, "ranker"), field(2, "41"), field(3, "id"), field(2, "41")]))],
    ["field number 0", frame(Buffer.concat([field(1, "ranker"), Buffer.from([2, 0])]))],
    ["a group", frame(Buffer.concat([field(1, "ranker"), Buffer.from([9 * 8 + 3, 9 * 8 + 4])]))],
    ["wire type 7", frame(Buffer.concat([field(1, "ranker"), Buffer.from([9 * 8 + 7])]))],
    [
      "a varint of eleven bytes",
      frame(Buffer.concat([field(1, "ranker"), varint(9 * 8), Buffer.alloc(10, 0xff), Buffer.from([1])])),
    ],
    ["a tag beyond 32 bits", frame(Buffer.concat([field(1, "ranker"), varint(2n ** 35n + 2n), varint(0)]))],
    ["a length beyond the message", frame(Buffer.concat([field(1, "ranker"), varint(5 * 8 + 2), varint(100)]))],
    ["a name longer than the message", frame(Buffer.concat([varint(10), varint(100), Buffer.from("ranker")]))],
    ["a length of 2^64-1", frame(Buffer.concat([varint(10), varint(2n ** 64n - 1n), Buffer.from("ranker")]))],
    ["a cut tag", frame(Buffer.concat([field(1, "ranker"), Buffer.from([0x80])]))],
    ["a name behind the prefix", frame(Buffer.concat([PADDING, field(1, "ranker")]))],
    [
      "a name across the end of the prefix",
      frame(Buffer.concat([field(3, "i".repeat(4087)), field(1, "ranker"), PADDING])),
    ],
    [
      "a version across the end of the prefix",
      frame(Buffer.concat([field(1, "ranker"), field(3, "i".repeat(4078)), field(2, "4".repeat(19)), PADDING])),
    ],
    ["two pins", named("ranker:41", "42")],
    ["an alias and a version", named("ranker@prod", "41")],
    ["a version that is none", named("ranker", "latest")],
  ])("%s is bad_input", (_, body) => {
    const { reason, stream } = infer(body);
    expect(reason).toBe("bad_input");
    expect(stream.client.headers).toContainEqual(["grpc-status", "3"]);
  });

  it("says which of these it is", () => {
    expect(infer(frame(field(1, "ranker"), 1)).text).toBe("gRPC message is compressed; send it uncompressed");
    expect(infer(frame(Buffer.concat([PADDING, field(1, "ranker")]))).text).toContain("first 4096 bytes");
    expect(infer(frame(field(2, "41"))).text).toBe("model name is missing in the gRPC message");
    expect(infer(undefined).text).toBe("request body is missing; send one gRPC message");
  });

  it("bears the last byte of the prefix", () => {
    const padding = 4096 - field(1, "ranker").length - 3;
    const fits = frame(Buffer.concat([field(3, "i".repeat(padding)), field(1, "ranker"), PADDING]));
    expect(infer(fits).route).toBe("ranker/prod");
  });

  it("a repetition behind the prefix is left to the batcher", () => {
    expect(infer(frame(Buffer.concat([field(1, "ranker"), PADDING, field(1, "secret")]))).route).toBe("ranker/prod");
  });

  it("needs no frame to be understood for calls of the server, but a body", () => {
    expect(infer(frame(Buffer.alloc(0)), "ServerLive").route).toBe("_server/live");
    expect(infer(undefined, "ServerLive").reason).toBe("bad_input");
  });
});

describe("a body in pieces", () => {
  const body = Buffer.concat([named("ranker", "41")]);

  it("byte by byte is held until the message is there, and passes whole", () => {
    const { verdicts, stream } = inPieces([...body].map((byte) => Buffer.from([byte])));
    expect(verdicts).toEqual([...Array(body.length).fill("held"), "passed"]);
    expect(routeOf(stream)).toBe("ranker/41");
    expect(stream.upstream.body.equals(body)).toBe(true);
  });

  it("with an empty last piece, as HTTP/1 ends", () => {
    const { verdicts, stream } = inPieces([body.subarray(0, 3), body.subarray(3), Buffer.alloc(0)]);
    expect(verdicts).toEqual(["held", "held", "passed", "passed"]);
    expect(stream.upstream.body.equals(body)).toBe(true);
  });

  it("gets the same verdict whatever the pieces", () => {
    const bodies = [
      frame(Buffer.concat([field(1, "ranker"), PADDING])),
      frame(Buffer.concat([field(1, "ranker"), field(3, "i".repeat(4000)), field(1, "ranker"), PADDING])),
      frame(Buffer.concat([PADDING, field(1, "ranker")])),
      named("nosuch"),
    ];
    for (const whole of bodies) {
      const expected = infer(whole);
      for (const size of [1, 7, 4096, 4100, 4101, 5000]) {
        const pieces: Buffer[] = [];
        for (let at = 0; at < whole.length; at += size) pieces.push(whole.subarray(at, at + size));
        const { stream } = inPieces(pieces);
        expect(routeOf(stream)).toBe(expected.route);
        expect(stream.reply?.body).toBe(expected.stream.reply?.body);
      }
    }
  });

  it("a compressed frame is refused at its first byte, and what follows is dropped", () => {
    const stream = host.openStream();
    stream.requestHeaders(grpcHeaders("ModelInfer"));
    expect(stream.requestBody(Buffer.from([1]))).toBe("refused");
    expect(stream.upstream.body.length).toBe(0);
    stream.close();
  });

  it("a stream that ends while its body is awaited leaves nothing behind", () => {
    for (let round = 0; round < 3000; round++) {
      const stream = host.openStream();
      stream.requestHeaders(grpcHeaders("ModelInfer"));
      if (round % 2 === 0) stream.requestBody(Buffer.from([0, 0]));
      stream.close();
    }
    expect(infer(named("ranker")).route).toBe("ranker/prod");
  });

  it("that ends with trailers before its message is complete is refused, not released", () => {
    for (const sent of [[], [Buffer.from([0])], [body.subarray(0, 9)]]) {
      const stream = host.openStream();
      stream.requestHeaders(grpcHeaders("ModelInfer"));
      for (const piece of sent) expect(stream.requestBody(piece)).toBe("held");
      expect(stream.requestTrailers([["x-checksum", "1"]])).toBe("refused");
      expect(stream.reply).toMatchObject({ grpcStatus: 3, details: "bad_input" });
      expect(stream.upstream.body.length).toBe(0);
      stream.close();
    }
  });

  it("that is complete passes with its trailers", () => {
    const stream = host.openStream();
    stream.requestHeaders(grpcHeaders("ModelInfer"));
    expect(stream.requestBody(body)).toBe("passed");
    expect(stream.requestTrailers([["x-checksum", "1"]])).toBe("passed");
    expect(stream.upstream.ended).toBe(true);
    expect(routeOf(stream)).toBe("ranker/41");
    stream.close();
  });

  it("the key is judged before the body is waited for", () => {
    const stream = host.openStream();
    expect(stream.requestHeaders(grpcHeaders("ModelInfer", [["x-api-key", `${ACME_KEY}x`]]))).toBe("refused");
    stream.close();
  });
});
