import { describe, expect, it } from "vitest";
import type { HeaderList } from "../header-map.js";
import { ACME_KEY, BATCHY_KEY, gateHost, grpcHeaders, judge, named, restHeaders } from "./fixture.js";

const host = gateHost();
const BODY = Buffer.from("{}");
const PREDICT = "/v1/models/ranker:predict";

function predict(headers: HeaderList, path = PREDICT) {
  return judge(host, restHeaders("POST", path, headers), BODY);
}

describe("priority and sticky key", () => {
  it.each<[string, string | undefined, string]>([
    [ACME_KEY, undefined, "interactive"],
    [ACME_KEY, "interactive", "interactive"],
    [ACME_KEY, "batch", "batch"],
    [BATCHY_KEY, undefined, "batch"],
    [BATCHY_KEY, "interactive", "batch"],
    [BATCHY_KEY, "batch", "batch"],
    [ACME_KEY, "urgent", "bad_input"],
    [ACME_KEY, "", "bad_input"],
  ])("key %s with priority %s is %s", (key, wish, expected) => {
    const judged = predict([
      ["x-api-key", key],
      ...(wish === undefined ? [] : [["x-predict-priority", wish] as const]),
    ]);
    expect(judged.reason ?? judged.headers.get("x-servemesh-priority")).toBe(expected);
    expect(judged.headers.has("x-predict-priority")).toBe(false);
  });

  it("refuses a repeated priority", () => {
    const reason = predict([
      ["x-api-key", ACME_KEY],
      ["x-predict-priority", "batch"],
      ["x-predict-priority", "batch"],
    ]).reason;
    expect(reason).toBe("bad_input");
  });

  it("copies the model's sticky header and keeps it unless it is the gate's", () => {
    const ours = predict([
      ["x-api-key", ACME_KEY],
      ["x-predict-sticky-key", "u-196"],
      ["x-user", "other"],
    ]);
    expect(ours.headers.get("x-servemesh-sticky")).toBe("u-196");
    expect(ours.headers.has("x-predict-sticky-key")).toBe(false);
    const theirs = predict(
      [
        ["x-api-key", ACME_KEY],
        ["x-user", "u-196"],
      ],
      "/v1/models/ranker-lite@staging:predict",
    );
    expect(theirs.headers.get("x-servemesh-sticky")).toBe("u-196");
    expect(theirs.headers.get("x-user")).toBe("u-196");
    expect(
      predict([
        ["x-api-key", ACME_KEY],
        ["x-user", "u"],
      ]).headers.has("x-servemesh-sticky"),
    ).toBe(false);
    const grpc = judge(
      host,
      grpcHeaders("ModelInfer", [
        ["x-api-key", ACME_KEY],
        ["x-predict-sticky-key", "\xe9\xff"],
      ]),
      named("ranker"),
    );
    expect(grpc.headers.get("x-servemesh-sticky")).toBe("\xe9\xff");
  });

  it("refuses two sticky keys and one over 1024 bytes", () => {
    expect(
      predict([
        ["x-api-key", ACME_KEY],
        ["x-predict-sticky-key", "a"],
        ["x-predict-sticky-key", "a"],
      ]).reason,
    ).toBe("bad_input");
    expect(
      predict([
        ["x-api-key", ACME_KEY],
        ["x-predict-sticky-key", "a".repeat(1025)],
      ]).reason,
    ).toBe("bad_input");
    expect(
      predict([
        ["x-api-key", ACME_KEY],
        ["x-predict-sticky-key", "a".repeat(1024)],
      ]).route,
    ).toBe("ranker/prod");
  });
});

describe("what goes upstream", () => {
  it("nothing that is for the gate only, and all else as it was, names in any case (C098, C112, C115)", () => {
    const more: HeaderList = [
      ["authorization", `Bearer ${ACME_KEY}`],
      ["x-predict-anything", "1"],
      ["x-predict-", "2"],
      ["X-Predict-Sticky-Key", "k"],
      ["accept", "*/*"],
      ["x-request-id", "r-1"],
      ["x-custom", "a"],
      ["x-custom", "b"],
      ["cookie", "c=1"],
    ];
    const { stream } = judge(host, restHeaders("POST", PREDICT, more), BODY);
    expect(stream.upstream.headers).toEqual([
      ...restHeaders("POST", PREDICT, []),
      ["accept", "*/*"],
      ["x-request-id", "r-1"],
      ["x-custom", "a"],
      ["x-custom", "b"],
      ["cookie", "c=1"],
      ["x-servemesh-route", "ranker/prod"],
      ["x-servemesh-tenant", "acme"],
      ["x-servemesh-priority", "interactive"],
      ["x-servemesh-sticky", "k"],
      ["x-servemesh-shadow-cluster", "model/ranker/43"],
      ["grpc-timeout", "2000m"],
      ["x-envoy-upstream-rq-timeout-ms", "2010"],
    ]);
    expect(stream.upstream.body.toString()).toBe("{}");
  });
});
