import { readFileSync } from "node:fs";
import { REFUSAL_STATUS } from "@servemesh/proto/refusal";
import { describe, expect, it } from "vitest";
import { loadGateModule } from "../../modules/files.js";
import type { HeaderList } from "../header-map.js";
import { createMockHost } from "../mock-host.js";
import { ACME_KEY, gateHost, grpcHeaders, judge, named, restHeaders } from "./fixture.js";

const host = gateHost();
const BODY = Buffer.from("{}");
const PREDICT = "/v1/models/ranker:predict";

describe("refusals", () => {
  it("have the statuses of the shared table, JSON at REST doors and plain text at gRPC doors", () => {
    const refused: [HeaderList, Uint8Array?][] = [
      [restHeaders("POST", PREDICT, []), BODY],
      [restHeaders("POST", "/v1/models/secret:predict"), BODY],
      [restHeaders("POST", "/v1/models/nosuch:predict"), BODY],
      [restHeaders("POST", "/nosuch"), BODY],
      [restHeaders("GET", PREDICT)],
      [restHeaders("POST", PREDICT, [["content-type", "text/plain"]]), BODY],
      [restHeaders("POST", "/v1/models/A:predict"), BODY],
      [
        restHeaders("POST", PREDICT, [
          ["x-api-key", ACME_KEY],
          ["x-predict-timeout-ms", "0"],
        ]),
        BODY,
      ],
    ];
    const seen = refused.map(([headers, body]) => {
      const { stream, reason } = judge(host, headers, body);
      const status = REFUSAL_STATUS[reason as keyof typeof REFUSAL_STATUS];
      expect(stream.reply).toMatchObject({ httpStatus: status.http, grpcStatus: status.grpc, details: reason });
      expect(JSON.parse(stream.reply?.body ?? "")).toEqual({ error: expect.any(String), code: status.grpc, reason });
      expect(stream.client.headers).toContainEqual(["content-type", "application/json"]);
      expect(stream.client.headers).toContainEqual(["x-servemesh-reason", reason]);
      expect(stream.client.body.toString()).toBe(stream.reply?.body);
      return reason;
    });
    expect(new Set(seen).size).toBe(8);
  });

  it("have texts that need no escaping and fit into the gate's block", () => {
    const source = readFileSync(new URL("../../assembly/gate/refusals.ts", import.meta.url), "utf8");
    const made = source.split(/^export const /m).slice(1);
    expect(made.length).toBeGreaterThan(30);
    for (const definition of made) {
      const name = definition.split(" ", 1)[0];
      const texts = [...definition.matchAll(/"([^"\\]*)"/g)].map(([, text]) => text ?? "");
      const text = texts.reduce((longest, one) => (one.length > longest.length ? one : longest), "");
      expect(text, name).toMatch(/^[ !#-[\]-~]{20,250}$/);
    }
  });

  it("name no shadow and no route, so that nothing is mirrored (C130)", () => {
    const { stream } = judge(host, restHeaders("POST", PREDICT, [["x-api-key", "wrong"]]), BODY);
    const names = stream.upstream.headers.map(([name]) => name);
    expect(names).not.toContain("x-servemesh-shadow-cluster");
    expect(names).not.toContain("x-servemesh-route");
  });

  it("are given once, whatever else is wrong (C106)", () => {
    // No key, no time and a bad path: the mock host throws at a second answer.
    const wrong: HeaderList = [
      ["x-predict-timeout-ms", "0"],
      ["x-predict-priority", "?"],
    ];
    const { stream } = judge(host, restHeaders("POST", "/v1/models/A@B:predict", wrong), BODY);
    expect(stream.reply).toMatchObject({ httpStatus: 401 });
    const late = host.openStream();
    expect(late.requestHeaders(grpcHeaders("ModelInfer", [["x-api-key", "wrong"]]))).toBe("refused");
    expect(late.requestBody(named("nosuch"), true)).toBe("refused");
    late.close();
  });

  it("mark the request first, so that local_reply_config leaves the answer alone", () => {
    const stream = host.openStream();
    stream.requestHeaders(restHeaders("POST", "/nosuch"), true);
    expect(stream.upstream.headers).toContainEqual(["x-servemesh-refused", "1"]);
    stream.close();
    const passed = judge(host, restHeaders("POST", PREDICT), BODY);
    expect(passed.headers.has("x-servemesh-refused")).toBe(false);
  });

  it("are short plain text at the gRPC door, and never repeat what a caller sent", () => {
    const { stream, text } = judge(host, grpcHeaders("ModelInfer"), named("nosuch-model-name"));
    expect(text).toBe("model is not known to this gateway; check its name");
    expect(stream.client.headers).toEqual([
      [":status", "200"],
      ["content-type", "application/grpc"],
      ["grpc-status", "5"],
      ["grpc-message", encodeURI(text ?? "")],
      ["x-servemesh-reason", "model_not_found"],
    ]);
  });

  it("without a configuration is unavailable, at every door, with a time to try again", () => {
    const bare = createMockHost(loadGateModule().bytes);
    for (const [headers, body] of [
      [restHeaders("POST", PREDICT), BODY],
      [restHeaders("GET", "/v2/health/live", []), undefined],
      [grpcHeaders("ModelInfer"), named("ranker")],
    ] as const) {
      const { reason, headers: answer, stream } = judge(bare, headers, body);
      expect(reason).toBe("unavailable");
      expect(answer.get("retry-after")).toBe("1");
      expect(stream.reply).toMatchObject({ httpStatus: 503, grpcStatus: 14 });
    }
  });

  it("are counted by reason", () => {
    const counted = gateHost();
    judge(counted, restHeaders("POST", PREDICT), BODY);
    judge(counted, restHeaders("POST", PREDICT, []), BODY);
    judge(counted, grpcHeaders("ModelInfer"), named("nosuch"));
    judge(counted, grpcHeaders("ModelInfer"), named("ranker"));
    const counts = [...counted.metrics].filter(([, count]) => count > 0n);
    const prefix = "servemesh_gate_requests_total.reason.";
    expect(Object.fromEntries(counts)).toEqual({
      [`${prefix}ok`]: 2n,
      [`${prefix}unauthenticated`]: 1n,
      [`${prefix}model_not_found`]: 1n,
    });
    expect([...counted.metrics.keys()].sort()).toEqual(
      ["ok", ...Object.keys(REFUSAL_STATUS)].map((word) => prefix + word).sort(),
    );
  });
});
