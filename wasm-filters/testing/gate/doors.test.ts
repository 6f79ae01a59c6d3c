import { readFileSync } from "node:fs";
import { join } from "node:path";
import { protoRoot } from "@servemesh/proto/sources";
import { describe, expect, it } from "vitest";
import type { HeaderList } from "../header-map.js";
import { ACME_KEY, frame, gateHost, grpcHeaders, judge, named, restHeaders } from "./fixture.js";

const host = gateHost();
const KEY: HeaderList = [["x-api-key", ACME_KEY]];
const BODY = Buffer.from("{}");

function rest(method: string, path: string, more: HeaderList = []) {
  return judge(host, restHeaders(method, path, [...KEY, ...more]), method === "POST" ? BODY : undefined);
}

describe("REST doors (C136)", () => {
  it.each([
    ["POST", "/v1/models/ranker:predict", "ranker/prod"],
    ["POST", "/v1/models/ranker@canary:predict", "ranker/canary"],
    ["POST", "/v1/models/ranker%40canary:predict", "ranker/canary"],
    ["POST", "/v1/models/ranker:41:predict", "ranker/41"],
    ["POST", "/v1/models/ranker%3A41:predict", "ranker/41"],
    ["POST", "/v1/models/ranker%3a41:predict", "ranker/41"],
    ["POST", "/v1/models/ranker/versions/42:predict", "ranker/42"],
    ["POST", "/v1/models/ranker:42/versions/42:predict", "ranker/42"],
    ["POST", "/v1/models/ranker/versions/9223372036854775807:predict", "ranker/9223372036854775807"],
    ["POST", "/v1/models/ranker/labels/canary:predict", "ranker/canary"],
    ["POST", "/v1/models/ranker@canary/labels/canary:predict", "ranker/canary"],
    ["POST", "/v2/models/ranker/infer", "ranker/prod"],
    ["POST", "/v2/models/ranker:41/infer", "ranker/41"],
    ["POST", "/v2/models/ranker%40prod/infer", "ranker/prod"],
    ["POST", "/v2/models/ranker/versions/41/infer", "ranker/41"],
    ["GET", "/v1/models/ranker", "ranker/prod"],
    ["GET", "/v1/models/ranker:41", "ranker/41"],
    ["GET", "/v1/models/ranker/versions/41", "ranker/41"],
    ["GET", "/v1/models/ranker/labels/canary", "ranker/canary"],
    ["GET", "/v1/models/ranker/metadata", "ranker/prod"],
    ["GET", "/v1/models/ranker/versions/41/metadata", "ranker/41"],
    ["GET", "/v2/models/ranker", "ranker/prod"],
    ["GET", "/v2/models/ranker/ready", "ranker/prod"],
    ["GET", "/v2/models/ranker/config", "ranker/prod"],
    ["GET", "/v2/models/ranker/versions/41", "ranker/41"],
    ["GET", "/v2/models/ranker/versions/41/ready", "ranker/41"],
    ["GET", "/v2/models/ranker/versions/41/config", "ranker/41"],
    ["GET", "/v2", "_server/meta"],
    ["GET", "/v2/health/live", "_server/live"],
    ["GET", "/v2/health/ready", "_server/ready"],
  ])("%s %s goes to %s", (method, path, route) => {
    expect(rest(method, path).route).toBe(route);
  });

  it.each([
    "/",
    "",
    "*",
    "/v1",
    "/v1/",
    "/v1/models",
    "/v1/models/",
    "/v2/",
    "/v2/models",
    "/v2/health",
    "/v2/health/x",
    "/v3/models/ranker",
    "/V1/models/ranker:predict",
    "/v1/models/ranker:Predict",
    "/v1/models//ranker:predict",
    "/v1/models/ranker:predict/",
    "/v1/models/ranker:classify",
    "/v1/models/ranker:regress",
    "/v1/models/ranker:",
    "/v2/models/ranker/infer/",
    "/v2/models/ranker/Infer",
    "/v2/models/ranker/labels/prod/infer",
    "/v2/models/ranker/versions/1/2/infer",
    "/v1/models/ranker/versions/41/labels/prod:predict",
    "/inference.GRPCInferenceService/ModelInfer",
    "v1/models/ranker:predict",
    "/v2/repository/index",
    "/v2/models/ranker/stats",
    "/metrics",
  ])("POST %s is path_not_found", (path) => {
    const { reason, stream } = rest("POST", path);
    expect(reason).toBe("path_not_found");
    expect(stream.reply).toMatchObject({ httpStatus: 404, grpcStatus: 5 });
  });

  it.each([
    ["GET", "/v1/models/ranker:predict", "POST"],
    ["HEAD", "/v1/models/ranker:predict", "POST"],
    ["OPTIONS", "/v1/models/ranker:predict", "POST"],
    ["PUT", "/v2/models/ranker/infer", "POST"],
    ["HEAD", "/v1/models/ranker", "GET"],
    ["OPTIONS", "/v2/models/ranker", "GET"],
    ["POST", "/v1/models/ranker", "GET"],
    ["POST", "/v1/models/ranker:41", "GET"],
    ["DELETE", "/v2/models/ranker/ready", "GET"],
    ["POST", "/v2/health/live", "GET"],
    ["POST", "/v2/models/ranker/versions/infer", "GET"],
    ["get", "/v2/health/live", "GET"],
  ])("%s %s is method_not_allowed and allows %s", (method, path, allowed) => {
    const { reason, headers, stream } = rest(method, path);
    expect(reason).toBe("method_not_allowed");
    expect(headers.get("allow")).toBe(allowed);
    expect(stream.reply).toMatchObject({ httpStatus: 405, grpcStatus: 12 });
  });

  it.each([
    ["%2F", "/v1/models/ran%2Fker:predict"],
    ["%25", "/v1/models/ranker%2540prod:predict"],
    ["a letter", "/v2/models/%72anker/infer"],
    ["half an escape", "/v2/models/ranker%4/infer"],
    ["nothing after %", "/v2/models/ranker%/infer"],
    ["no hexadecimal digits", "/v2/models/ranker%zz/infer"],
  ])("refuses %s in the model segment as bad_input", (_, path) => {
    expect(rest("POST", path).reason).toBe("bad_input");
  });

  it("cuts the query, which would override the path in the transcoder", () => {
    const { route, headers } = rest("POST", "/v1/models/ranker:predict?model=evil&x=%2F");
    expect(route).toBe("ranker/prod");
    expect(headers.get(":path")).toBe("/v1/models/ranker:predict");
    expect(rest("GET", "/v2?").headers.get(":path")).toBe("/v2");
  });

  it.each([
    "application/json",
    "Application/JSON; charset=utf-8",
    'application/json;charset="UTF-8"',
    "application/json ;",
    "application/x-www-form-urlencoded",
  ])("takes the content type %s", (type) => {
    expect(rest("POST", "/v1/models/ranker:predict", [["content-type", type]]).route).toBe("ranker/prod");
    expect(rest("POST", "/v2/models/ranker/infer", [["content-type", type]]).route).toBe("ranker/prod");
  });

  it.each([
    "text/plain; charset=utf-16",
    "application/json; charset=utf-16",
    "application/jsonx",
    "multipart/form-data",
    "application/grpc-web",
    "application/grpc;x",
    "Application/Grpc",
  ])("refuses the content type %s on predict", (type) => {
    const reason = rest("POST", "/v1/models/ranker:predict", [["content-type", type]]).reason;
    expect(reason).toBe("unsupported_media_type");
  });

  it("takes binary tensors at the v2 door only", () => {
    const binary: HeaderList = [
      ["content-type", "application/octet-stream"],
      ["inference-header-content-length", "2"],
    ];
    expect(rest("POST", "/v2/models/ranker/infer", binary).route).toBe("ranker/prod");
    expect(rest("POST", "/v1/models/ranker:predict", binary).reason).toBe("unsupported_media_type");
  });

  it.each([["gzip"], ["deflate"], ["identity, gzip"], [""]])("refuses the content encoding %s", (encoding) => {
    const { reason, stream } = rest("POST", "/v2/models/ranker/infer", [["content-encoding", encoding]]);
    expect(reason).toBe("unsupported_media_type");
    expect(stream.reply).toMatchObject({ httpStatus: 415, grpcStatus: 3 });
  });

  it("takes the content encoding identity and a missing content type", () => {
    expect(rest("POST", "/v2/models/ranker/infer", [["content-encoding", "identity"]]).route).toBe("ranker/prod");
    expect(rest("POST", "/v2/models/ranker/infer").route).toBe("ranker/prod");
    const two: HeaderList = [
      ["content-type", "application/json"],
      ["content-type", "application/json"],
    ];
    expect(rest("POST", "/v2/models/ranker/infer", two).reason).toBe("unsupported_media_type");
  });
});

describe("the transcoder's patterns", () => {
  const source = readFileSync(join(protoRoot, "servemesh/rest/v1/rest.proto"), "utf8");
  const patterns = [...source.matchAll(/(get|post): "([^"]+)"/g)].map(
    ([, verb = "", path = ""]) => [verb.toUpperCase(), path] as const,
  );

  it.each(patterns)("%s %s is a path of the gate", (method, pattern) => {
    const path = pattern.replace("{model}", "ranker").replace("{version}", "41").replace("{label}", "canary");
    const pin = pattern.includes("{version}") ? "41" : pattern.includes("{label}") ? "canary" : "prod";
    const { route } = rest(method, path);
    if (pattern.includes("{model}")) expect(route).toBe(`ranker/${pin}`);
    else expect(route).toMatch(/^_server\//);
  });

  it("are all of them", () => {
    const bindings = [...source.matchAll(/\(google\.api\.http\)|additional_bindings/g)];
    expect(patterns.length).toBe(bindings.length);
    expect(patterns.length).toBeGreaterThan(0);
  });
});

describe("gRPC door", () => {
  const empty = frame(Buffer.alloc(0));
  it.each([
    ["ModelInfer", named("ranker@canary"), "ranker/canary"],
    ["ModelInfer", named("ranker", "41"), "ranker/41"],
    ["ModelReady", named("ranker", ""), "ranker/prod"],
    ["ModelMetadata", named("ranker:42"), "ranker/42"],
    ["ModelConfig", named("ranker"), "ranker/prod"],
    ["ServerLive", empty, "_server/live"],
    ["ServerReady", empty, "_server/ready"],
    ["ServerMetadata", empty, "_server/meta"],
  ])("%s goes to its route", (method, body, route) => {
    const { route: got, stream } = judge(host, grpcHeaders(method), body);
    expect(got).toBe(route);
    expect(stream.upstream.body.equals(body)).toBe(true);
  });

  it.each(["ModelStreamInfer", "RepositoryIndex", "modelinfer", "ModelInfer/", "ModelInfer?x", ""])(
    "the method %s is path_not_found, UNIMPLEMENTED",
    (method) => {
      const { reason, stream } = judge(host, grpcHeaders(method), named("ranker"));
      expect(reason).toBe("path_not_found");
      expect(stream.client.headers).toContainEqual(["grpc-status", "12"]);
    },
  );

  it("another service is path_not_found", () => {
    const headers = restHeaders("POST", "/grpc.health.v1.Health/Check", [["content-type", "application/grpc"]]);
    expect(judge(host, headers, empty).reason).toBe("path_not_found");
  });

  it("takes application/grpc+proto and refuses other gRPC content types in their own form", () => {
    const of = (type: string) =>
      judge(
        host,
        grpcHeaders("ModelInfer", []).map(([name, value]) => [name, name === "content-type" ? type : value] as const),
        named("ranker"),
      );
    expect(of("application/grpc+proto").reason).toBe("unauthenticated");
    const json = of("application/grpc+json");
    expect(json.reason).toBe("unsupported_media_type");
    expect(json.stream.client.headers).toContainEqual(["grpc-status", "3"]);
    expect(json.stream.reply?.body).not.toContain("{");
  });

  it("a call that is not POST is method_not_allowed", () => {
    const headers = grpcHeaders("ModelInfer").map(
      ([name, value]) => [name, name === ":method" ? "GET" : value] as const,
    );
    expect(judge(host, headers, named("ranker")).reason).toBe("method_not_allowed");
  });
});
