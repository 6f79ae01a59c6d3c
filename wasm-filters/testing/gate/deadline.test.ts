import { describe, expect, it } from "vitest";
import type { HeaderList } from "../header-map.js";
import { ACME_KEY, gateHost, judge, restHeaders } from "./fixture.js";

const host = gateHost();
const BODY = Buffer.from("{}");
const PREDICT = "/v1/models/ranker:predict";

function predict(headers: HeaderList, path = PREDICT) {
  return judge(host, restHeaders("POST", path, headers), BODY);
}

describe("deadline", () => {
  const budget = (headers: HeaderList, path = PREDICT) => {
    const judged = predict([["x-api-key", ACME_KEY], ...headers], path);
    return judged.reason ?? judged.headers.get("grpc-timeout");
  };

  it.each<[string, string]>([
    ["80", "80m"],
    ["1", "1m"],
    ["0080", "80m"],
    ["2000", "2000m"],
    ["2001", "2000m"],
    ["600000", "2000m"],
    ["18446744073709551616", "2000m"],
    ["4294967297", "2000m"],
    ["9".repeat(4000), "2000m"],
    ["0", "deadline"],
    ["000", "deadline"],
    ["", "bad_input"],
    ["-1", "bad_input"],
    ["abc", "bad_input"],
    ["1e3", "bad_input"],
    ["80.5", "bad_input"],
    ["80,80", "bad_input"],
    ["0x50", "bad_input"],
    [" 80", "bad_input"],
    ["80m", "bad_input"],
  ])("x-predict-timeout-ms: %s gives %s (C116)", (value, expected) => {
    expect(budget([["x-predict-timeout-ms", value]])).toBe(expected);
  });

  it.each<[string, string]>([
    ["1H", "2000m"],
    ["1M", "2000m"],
    ["1S", "1000m"],
    ["250m", "250m"],
    ["1500u", "2m"],
    ["1u", "1m"],
    ["1n", "1m"],
    ["1000001n", "2m"],
    ["99999999H", "2000m"],
    ["99999999M", "2000m"],
    ["99999999S", "2000m"],
    ["99999999m", "2000m"],
    ["99999999u", "2000m"],
    ["99999999n", "100m"],
    ["5124096H", "2000m"],
    ["0m", "deadline"],
    ["0n", "deadline"],
    ["0H", "deadline"],
    ["100000000m", "bad_input"],
    ["m", "bad_input"],
    ["", "bad_input"],
    ["10", "bad_input"],
    ["10s", "bad_input"],
    ["10 m", "bad_input"],
    ["-1m", "bad_input"],
    ["1.5S", "bad_input"],
    ["10mm", "bad_input"],
    ["10h", "bad_input"],
  ])("grpc-timeout: %s gives %s", (value, expected) => {
    expect(budget([["grpc-timeout", value]])).toBe(expected);
  });

  it("takes the smaller of both, and refuses repeated ones (C097)", () => {
    expect(
      budget([
        ["grpc-timeout", "70m"],
        ["x-predict-timeout-ms", "80"],
      ]),
    ).toBe("70m");
    expect(
      budget([
        ["grpc-timeout", "90m"],
        ["x-predict-timeout-ms", "80"],
      ]),
    ).toBe("80m");
    expect(
      budget([
        ["x-predict-timeout-ms", "80"],
        ["x-predict-timeout-ms", "999999"],
      ]),
    ).toBe("bad_input");
    expect(
      budget([
        ["grpc-timeout", "80m"],
        ["grpc-timeout", "80m"],
      ]),
    ).toBe("bad_input");
  });

  it("is the alias's limit, the model's for pinned versions, and 5 s for the server", () => {
    expect(budget([])).toBe("2000m");
    expect(budget([], "/v1/models/ranker@canary:predict")).toBe("300m");
    expect(budget([["x-predict-timeout-ms", "400"]], "/v1/models/ranker@canary:predict")).toBe("300m");
    expect(budget([], "/v1/models/ranker:41:predict")).toBe("2000m");
    expect(judge(host, restHeaders("GET", "/v2/health/live", [])).headers.get("grpc-timeout")).toBe("5000m");
  });

  it("gives Envoy's router 10 ms more, and replaces what a client sent (C098)", () => {
    const { stream } = predict([
      ["x-api-key", ACME_KEY],
      ["x-predict-timeout-ms", "80"],
      ["x-envoy-upstream-rq-timeout-ms", "999999"],
    ]);
    const named = (name: string) =>
      stream.upstream.headers.filter(([known]) => known === name).map(([, value]) => value);
    expect(named("x-envoy-upstream-rq-timeout-ms")).toEqual(["90"]);
    expect(named("grpc-timeout")).toEqual(["80m"]);
    expect(named("x-predict-timeout-ms")).toEqual([]);
  });
});
