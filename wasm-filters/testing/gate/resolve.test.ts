import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseModelRef } from "@servemesh/proto/model-ref";
import { protoRoot } from "@servemesh/proto/sources";
import { describe, expect, it } from "vitest";
import type { HeaderList } from "../header-map.js";
import {
  ACME_KEY,
  BATCHY_KEY,
  CONFIG,
  gateHost,
  grpcHeaders,
  judge,
  NOBODY_KEY,
  named,
  restHeaders,
} from "./fixture.js";

const host = gateHost();
const BODY = Buffer.from("{}");
const PREDICT = "/v1/models/ranker:predict";

function predict(headers: HeaderList, path = PREDICT) {
  return judge(host, restHeaders("POST", path, headers), BODY);
}

describe("resolve and access", () => {
  it.each([
    ["/v1/models/nosuch:predict", "model_not_found"],
    ["/v1/models/ranker@nosuch:predict", "model_not_found"],
    ["/v1/models/ranker:7:predict", "model_not_found"],
    ["/v1/models/ranker/labels/nosuch:predict", "model_not_found"],
    ["/v1/models/ranker/versions/7:predict", "model_not_found"],
    ["/v1/models/ranker-lite:predict", "model_not_found"],
    ["/v1/models/Ranker:predict", "bad_input"],
    ["/v1/models/ranker@Prod:predict", "bad_input"],
    ["/v1/models/ranker:041:predict", "bad_input"],
    ["/v1/models/ranker@prod@prod:predict", "bad_input"],
    ["/v1/models/ranker/versions/0:predict", "bad_input"],
    ["/v1/models/ranker/versions/%34%31:predict", "bad_input"],
    ["/v1/models/ranker/versions/9223372036854775808:predict", "bad_input"],
    ["/v1/models/ranker/labels/Canary:predict", "bad_input"],
    ["/v1/models/ranker:41/versions/42:predict", "bad_input"],
    ["/v1/models/ranker@prod/versions/41:predict", "bad_input"],
    ["/v1/models/ranker:41/labels/prod:predict", "bad_input"],
    ["/v1/models/ranker@prod/labels/canary:predict", "bad_input"],
    ["/v2/models/ranker:41/versions/42/infer", "bad_input"],
    ["/v1/models/:predict", "bad_input"],
    ["/v1/models/secret:predict", "forbidden"],
  ])("POST %s is %s", (path, reason) => {
    expect(predict([["x-api-key", ACME_KEY]], path).reason).toBe(reason);
  });

  it("both sides must allow, and an empty list is nobody", () => {
    expect(predict([["x-api-key", BATCHY_KEY]]).route).toBe("ranker/prod");
    expect(predict([["x-api-key", BATCHY_KEY]], "/v1/models/ranker-lite@staging:predict").reason).toBe("forbidden");
    expect(predict([["x-api-key", ACME_KEY]], "/v1/models/ranker-lite@staging:predict").route).toBe(
      "ranker-lite/staging",
    );
    expect(predict([["x-api-key", NOBODY_KEY]]).reason).toBe("forbidden");
    // An unknown model comes before a forbidden one.
    expect(predict([["x-api-key", NOBODY_KEY]], "/v1/models/nosuch:predict").reason).toBe("model_not_found");
    expect(judge(host, restHeaders("GET", "/v2", [["x-api-key", NOBODY_KEY]])).route).toBe("_server/meta");
  });

  it("every predict of an alias with a shadow names the shadow's cluster, and nothing else does", () => {
    const shadowOf = (path: string, method = "POST") =>
      judge(host, restHeaders(method, path), method === "POST" ? BODY : undefined).headers.get(
        "x-servemesh-shadow-cluster",
      );
    expect(shadowOf(PREDICT)).toBe("model/ranker/43");
    expect(shadowOf("/v2/models/ranker@prod/infer")).toBe("model/ranker/43");
    expect(shadowOf("/v1/models/ranker@canary:predict")).toBeUndefined();
    expect(shadowOf("/v1/models/ranker:41:predict")).toBeUndefined();
    expect(shadowOf("/v2/models/ranker", "GET")).toBeUndefined();
    expect(judge(host, grpcHeaders("ModelInfer"), named("ranker")).headers.get("x-servemesh-shadow-cluster")).toBe(
      "model/ranker/43",
    );
    expect(judge(host, grpcHeaders("ModelReady"), named("ranker")).headers.has("x-servemesh-shadow-cluster")).toBe(
      false,
    );
  });
});

interface Vectors {
  readonly valid: { text: string; model: string; alias?: string; version?: string }[];
  readonly invalid: { text: string; part: string }[];
}

describe("model references", () => {
  const path = join(protoRoot, "vectors/model-ref.json");
  const vectors = JSON.parse(readFileSync(path, "utf8")) as Vectors;
  const problems = {
    model: "the name must",
    alias: "the alias must",
    version: "the version must",
    pins: "only one pin",
  };

  it.each(vectors.valid)("reads $text", ({ text, model, alias, version }) => {
    const models = [
      {
        ...CONFIG.models[0],
        name: model,
        aliases: [{ name: alias ?? "prod" }],
        versions: version === undefined ? [] : [BigInt(version)],
      },
    ];
    const host = gateHost({ ...CONFIG, models: models as typeof CONFIG.models });
    expect(judge(host, grpcHeaders("ModelInfer"), named(text)).route).toBe(`${model}/${alias ?? version ?? "prod"}`);
  });

  it.each(vectors.invalid.filter(({ text }) => text !== ""))("refuses $text for its $part", ({ text, part }) => {
    expect(parseModelRef(text).ok).toBe(false);
    const { reason, text: problem } = judge(
      host,
      grpcHeaders("ModelInfer"),
      named(Buffer.from(text).toString("latin1")),
    );
    expect(reason).toBe("bad_input");
    expect(problem).toContain(problems[part as keyof typeof problems]);
  });
});
