import { describe, expect, it } from "vitest";
import type { HeaderList } from "../header-map.js";
import { ACME_KEY, gateHost, judge, restHeaders } from "./fixture.js";

const host = gateHost();
const BODY = Buffer.from("{}");
const PREDICT = "/v1/models/ranker:predict";

function predict(headers: HeaderList, path = PREDICT) {
  return judge(host, restHeaders("POST", path, headers), BODY);
}

describe("auth", () => {
  it.each<[string, HeaderList]>([
    ["x-api-key", [["x-api-key", ACME_KEY]]],
    ["Bearer", [["authorization", `Bearer ${ACME_KEY}`]]],
    ["bearer in lower case", [["authorization", `bearer ${ACME_KEY}`]]],
    ["BEARER and a header name in upper case", [["Authorization", `BEARER ${ACME_KEY}`]]],
  ])("takes %s and removes it", (_, headers) => {
    const { headers: upstream, route } = predict(headers);
    expect(route).toBe("ranker/prod");
    expect(upstream.get("x-servemesh-tenant")).toBe("acme");
    expect([...upstream.values()].join(" ")).not.toContain(ACME_KEY);
  });

  it.each<[string, HeaderList]>([
    ["no key", []],
    ["an empty key", [["x-api-key", ""]]],
    ["an unknown key", [["x-api-key", "sm_unknown"]]],
    ["a key with one more character", [["x-api-key", `${ACME_KEY}0`]]],
    ["a key of 513 characters", [["x-api-key", "k".repeat(513)]]],
    ["a key of 60,000 characters", [["authorization", `Bearer ${"k".repeat(60000)}`]]],
    [
      "both headers",
      [
        ["x-api-key", ACME_KEY],
        ["authorization", `Bearer ${ACME_KEY}`],
      ],
    ],
    [
      "the same key twice",
      [
        ["x-api-key", ACME_KEY],
        ["x-api-key", ACME_KEY],
      ],
    ],
    [
      "a good and a bad Bearer",
      [
        ["authorization", `Bearer ${ACME_KEY}`],
        ["authorization", "Bearer bad"],
      ],
    ],
    [
      "a bad and a good Bearer",
      [
        ["authorization", "Bearer bad"],
        ["authorization", `Bearer ${ACME_KEY}`],
      ],
    ],
    ["junk after the key", [["authorization", `Bearer ${ACME_KEY} xyz`]]],
    ["exclamation marks after the key", [["authorization", `Bearer ${ACME_KEY}!!`]]],
    ["two spaces", [["authorization", `Bearer  ${ACME_KEY}`]]],
    ["a tab", [["authorization", `Bearer\t${ACME_KEY}`]]],
    ["Bearer alone", [["authorization", "Bearer"]]],
    ["Bearer and a space", [["authorization", "Bearer "]]],
    ["only padding", [["authorization", "Bearer =="]]],
    ["Basic", [["authorization", "Basic YTpi"]]],
    ["bytes that are no text", [["x-api-key", "\xff\xfe\x80"]]],
  ])("refuses %s (C097, C100)", (_, headers) => {
    const { reason, headers: answer, stream } = predict(headers);
    expect(reason).toBe("unauthenticated");
    expect(answer.get("www-authenticate")).toBe("Bearer");
    expect(stream.reply).toMatchObject({ httpStatus: 401, grpcStatus: 16 });
  });

  it.each([
    `Bearer ${ACME_KEY} xyz`,
    `Bearer ${ACME_KEY}!!`,
    `Bearer  ${ACME_KEY}`,
    "Bearer ",
    "Bearer ==",
    "Bearer a=b",
    "Basic YTpi",
  ])("says that the form of authorization: %s is wrong, and not the key", (value) => {
    expect(predict([["authorization", value]]).text).toBe("authorization: must be Bearer, one space and an API key");
  });

  it("takes every character of RFC 6750, and says of such a key that it is not valid", () => {
    expect(predict([["authorization", "Bearer aZ09-._~+/=="]]).text).toContain("API key is not valid");
  });

  it("needs no key for liveness and readiness of the server, but one for its metadata", () => {
    for (const path of ["/v2/health/live", "/v2/health/ready"]) {
      const { headers } = judge(host, restHeaders("GET", path, []));
      expect(headers.get("x-servemesh-route")).toBe(path.replace("/v2/health", "_server"));
      expect(headers.has("x-servemesh-tenant")).toBe(false);
      expect(headers.has("x-servemesh-priority")).toBe(false);
    }
    expect(judge(host, restHeaders("GET", "/v2", [])).reason).toBe("unauthenticated");
  });

  it("does not tell a caller without a key which models exist", () => {
    const known = predict([]);
    const unknown = predict([], "/v1/models/nosuch:predict");
    expect(unknown.stream.reply).toEqual(known.stream.reply);
  });

  it("a client's own tenant never counts (C094, C095)", () => {
    const { headers } = predict([
      ["x-api-key", ACME_KEY],
      ["x-servemesh-tenant", "beta"],
      ["X-Servemesh-Tenant", ""],
    ]);
    expect(headers.get("x-servemesh-tenant")).toBe("acme");
    const { stream } = predict([
      ["x-api-key", ACME_KEY],
      ["x-servemesh-tenant", "beta"],
      ["x-servemesh-tenant", ""],
    ]);
    expect(stream.upstream.headers.filter(([name]) => name === "x-servemesh-tenant")).toEqual([
      ["x-servemesh-tenant", "acme"],
    ]);
  });
});
