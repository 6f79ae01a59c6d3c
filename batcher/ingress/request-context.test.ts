import { Metadata } from "@grpc/grpc-js";
import { describe, expect, it } from "vitest";
import { PredictError } from "../request.js";
import { formatServedBy, formatServerTiming, refusalOf } from "./answer-metadata.js";
import { checkMediaType } from "./media-type.js";
import { checkReference } from "./reference-check.js";
import { isLoopbackPeer, readContext } from "./request-context.js";
import type { ServedModel } from "./served-model.js";
import { metadataOf } from "./testing/loopback.js";
import { rankerSpec } from "./testing/ranker-spec.js";

const served: ServedModel = { model: "ranker", version: 41n, spec: rankerSpec(), ready: true, draining: false };
const times = { arrivedAtMs: 1000, wallMs: 50_000, callDeadlineMs: Number.POSITIVE_INFINITY, marginMs: 2 };
const mesh = {
  "x-servemesh-route": "ranker/prod",
  "x-servemesh-tenant": "acme",
  "x-servemesh-priority": "batch",
  "x-servemesh-version": "ranker:41",
  "x-servemesh-first": "ranker:41,ranker:42",
  "x-servemesh-leg": "primary",
  "x-request-id": "id-1",
  "x-envoy-attempt-count": "2",
};

function read(headers: Record<string, string>, change: Partial<typeof times> = {}) {
  return readContext(metadataOf(headers), served, { ...times, ...change });
}

function refusal(work: () => unknown): PredictError {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(PredictError);
    return error as PredictError;
  }
  throw new Error("accepted");
}

describe("readContext", () => {
  it("reads what the mesh says", () => {
    expect(read(mesh)).toEqual({
      requestId: "id-1",
      tenant: "acme",
      priority: "batch",
      route: "ranker/prod",
      version: "ranker:41",
      first: ["ranker:41", "ranker:42"],
      leg: "primary",
      paired: false,
      attempt: 2,
      arrivedAtMs: 1000,
      deadlineAtMs: Number.POSITIVE_INFINITY,
    });
  });

  it("knows both legs of a mirrored request", () => {
    const shadow = { "x-servemesh-shadow-cluster": "model/ranker/43" };
    expect(read({ ...mesh, ...shadow })).toMatchObject({ leg: "primary", paired: true });
    expect(read({ ...mesh, ...shadow, "x-servemesh-leg": "shadow" })).toMatchObject({ leg: "shadow", paired: true });
  });

  it("takes a call without a route as direct", () => {
    const context = read({});
    expect(context).toMatchObject({
      tenant: "direct",
      route: "ranker/41",
      first: ["ranker:41"],
      priority: "interactive",
    });
    expect(context.requestId).toMatch(/^[0-9a-f-]{36}$/);
  });

  it("takes the smaller deadline, less the margin, on the monotonic clock", () => {
    const deadline = (callMs: number, envoy: string | undefined) =>
      read(
        { ...mesh, ...(envoy === undefined ? {} : { "x-envoy-expected-rq-timeout-ms": envoy }) },
        { callDeadlineMs: callMs },
      ).deadlineAtMs;
    expect(deadline(50_080, undefined)).toBe(1078);
    expect(deadline(50_080, "90")).toBe(1078);
    expect(deadline(50_080, "40")).toBe(1038);
    expect(deadline(Number.POSITIVE_INFINITY, "40")).toBe(1038);
    expect(deadline(Number.POSITIVE_INFINITY, "0")).toBe(Number.POSITIVE_INFINITY);
    expect(deadline(Number.POSITIVE_INFINITY, "999999999999")).toBe(600_998);
    expect(refusal(() => deadline(50_080, "1.5")).reason).toBe("bad_input");
  });

  it.each(["acme,beta", "acme, beta", "", "-x"])("refuses the tenant header %j", (tenant) => {
    const error = refusal(() => read({ ...mesh, "x-servemesh-tenant": tenant }));
    expect(error.reason).toBe("unauthenticated");
    expect(error.message).toContain("x-servemesh-tenant must be exactly one tenant name");
  });

  it("refuses a repeated tenant header and a route without tenant", () => {
    const metadata = metadataOf(mesh);
    metadata.add("x-servemesh-tenant", "beta");
    expect(refusal(() => readContext(metadata, served, times)).reason).toBe("unauthenticated");
    expect(refusal(() => read({ "x-servemesh-route": "ranker/prod" })).reason).toBe("unauthenticated");
  });

  it("refuses what Envoy meant for another version", () => {
    const error = refusal(() => read({ ...mesh, "x-servemesh-version": "ranker:42" }));
    expect(error.reason).toBe("unavailable");
    expect(error.message).toContain('this replica serves ranker:41, the request is for "ranker:42"');
  });

  it("bounds the request id", () => {
    expect(refusal(() => read({ ...mesh, "x-request-id": "x".repeat(257) })).reason).toBe("bad_input");
  });

  it.each([
    ["127.0.0.1:5", true],
    ["::1:5", true],
    ["::ffff:127.0.0.1:5", true],
    ["10.0.0.1:5", false],
    ["1127.0.0.1:5", false],
    ["::11:5", false],
    ["unknown", false],
  ])("peer %s is loopback: %s", (peer, expected) => {
    expect(isLoopbackPeer(peer)).toBe(expected);
  });
});

describe("checkReference", () => {
  const check = (model: string, route: string | undefined, version = "", label = "") =>
    checkReference({ model, version, label }, route, served);

  it.each([
    ["ranker", "ranker/prod", "", ""],
    ["ranker", "ranker/41", "", ""],
    ["ranker@prod", "ranker/prod", "", ""],
    ["ranker:41", "ranker/41", "", ""],
    ["ranker:41", "ranker/41", "41", ""],
    ["ranker", "ranker/41", "41", ""],
    ["ranker", "ranker/prod", "", "prod"],
    ["ranker@prod", "ranker/prod/variant-b", "", ""],
    // A fallback serves another model's route.
    ["other@prod", "other/prod", "", ""],
  ])("%s fits %s", (model, route, version, label) => {
    expect(() => check(model, route, version, label)).not.toThrow();
  });

  it.each([
    ["evil", "ranker/prod", "", "", "differs from the route"],
    ["ranker@canary", "ranker/prod", "", "", '"canary" of model "ranker@canary" differs from "prod"'],
    ["ranker:42", "ranker/41", "", "", '"42" of model "ranker:42" differs from "41"'],
    ["ranker:41", "ranker/41", "42", "", '"42"'],
    ["ranker@prod", "ranker/prod", "41", "", '"41"'],
    ["ranker", "ranker/prod", "41", "", '"41"'],
    ["ranker", "ranker/prod", "", "canary", '"canary"'],
    ["ranker", "ranker/prod", "041", "", "not a positive integer"],
    ["ranker", "ranker/prod", "", "Prod", "is not an alias"],
    ["", "ranker/prod", "", "", "model name is missing"],
    ["Ranker", "ranker/prod", "", "", "is not valid"],
    ["ranker/prod", "ranker/prod", "", "", "is not valid"],
    ["ranker", "_server/live", "", "", "differs from the route"],
  ])("%s does not fit %s (version %j, label %j)", (model, route, version, label, expected) => {
    const error = refusal(() => check(model, route, version, label));
    expect(error.reason).toBe("bad_input");
    expect(error.message).toContain(expected);
  });

  it("a direct call may ask only for what is served", () => {
    expect(() => check("ranker", undefined)).not.toThrow();
    expect(() => check("ranker:41", undefined)).not.toThrow();
    for (const model of ["other", "ranker@prod", "ranker:42"]) {
      expect(refusal(() => check(model, undefined)).reason).toBe("model_not_found");
    }
  });
});

describe("answer metadata", () => {
  it("prints the stages that ran, in order, in ms with three decimals", () => {
    expect(formatServerTiming({ queue: 1.5, features: 6.01249, infer: 11 })).toBe(
      "features;dur=6.012, queue;dur=1.500, infer;dur=11.000",
    );
    expect(formatServerTiming({})).toBe("");
  });

  it("says when and why this was not the first choice", () => {
    const context = read(mesh);
    expect(formatServedBy("ranker:41", context)).toBe("ranker:41");
    expect(formatServedBy("ranker-lite:1", context)).toBe("ranker-lite:1; fallback=saturated");
    expect(formatServedBy("ranker-lite:1", { ...context, attempt: 1 })).toBe("ranker-lite:1; fallback=unavailable");
  });

  it("gives a refusal its status, reason and whole seconds of waiting", () => {
    const refused = refusalOf(new PredictError("overloaded", "queue full \ud800", 1200));
    expect(refused).toMatchObject({ code: 8, details: "queue full ?" });
    expect(refused.metadata.getMap()).toEqual({ "x-servemesh-reason": "overloaded", "retry-after": "2" });
    expect(refusalOf(new PredictError("bad_input", "x")).metadata).toEqual(
      metadataOf({ "x-servemesh-reason": "bad_input" }),
    );
    expect(new Metadata().getMap()).toEqual({});
  });
});

describe("checkMediaType", () => {
  it.each([
    "",
    "application/json",
    "application/json; charset=UTF-8",
    "application/x-www-form-urlencoded",
    'text/plain;charset="utf-8"',
  ])("C026: takes %j", (type) => {
    expect(() => checkMediaType(type)).not.toThrow();
  });

  it.each(["text/plain; charset=utf-16", "image/png", "multipart/form-data; boundary=x"])(
    "C026: refuses %j",
    (type) => {
      expect(refusal(() => checkMediaType(type)).reason).toBe("unsupported_media_type");
    },
  );
});
