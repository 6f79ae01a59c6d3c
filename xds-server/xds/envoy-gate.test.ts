import { createHash } from "node:crypto";
import { loadGateModule } from "@servemesh/wasm-filters";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type GateTools, gateToolsOf } from "../gate-compiler.js";
import { rankerOn, type StateFixture, stateOf, withEcho, withWeights } from "../plan/state-fixture.js";
import type { Finding } from "../registry/state.js";
import { createXdsPipeline, type XdsPipeline } from "../xds-pipeline.js";
import { callRest, type GrpcAnswer, type GrpcCall, GrpcDoor, type RestAnswer, type RestCall } from "./doors-fixture.js";
import { envoyBinary } from "./envoy-fixture.js";
import { PATIENCE_MS, pause, restDescriptor, TestMesh } from "./mesh-fixture.js";

/** Registry states through the whole pipeline to a real Envoy with the real gate; only the batchers are pretended. */
const binary = envoyBinary();
if (binary === undefined) console.info("skipped: no Envoy; run `npm run setup` or set ENVOY_BIN");

const MIB = 1024 * 1024;
const KEY = "acme-key-of-the-test-00000000001";
const BETA_KEY = "beta-key-of-the-test-00000000002";
const sha256 = (text: string): Buffer => createHash("sha256").update(text).digest();
const PREDICT = "/v1/models/ranker:predict";

describe.skipIf(binary === undefined)("the pipeline with a real Envoy and the real gate", () => {
  let mesh: TestMesh;
  let door: GrpcDoor;
  let pipeline: XdsPipeline;
  let ranker: StateFixture;
  /** When set, configurations fail their trial with it. */
  let gateProblem: string | undefined;

  const real = gateToolsOf(loadGateModule().bytes);
  const gate: GateTools = { ...real, dryRun: (config) => gateProblem ?? real.dryRun(config) };

  /** Applies a state and waits until Envoy has all of it. */
  async function apply(fixture: StateFixture): Promise<readonly Finding[]> {
    mesh.wire.length = 0;
    const findings = pipeline.apply(stateOf(fixture), {});
    expect(await mesh.settled()).toEqual({ settled: true, unsettled: [] });
    expect(mesh.xds.findings()).toEqual([]);
    return findings.filter(({ severity }) => severity === "error");
  }

  const rest = (path: string, call: Partial<RestCall> = {}): Promise<RestAnswer> =>
    callRest(mesh.ports.http, { path, ...call, headers: { "x-api-key": KEY, ...call.headers } });
  const grpc = (call: GrpcCall = {}): Promise<GrpcAnswer> =>
    door.call({ ...call, headers: { "x-api-key": KEY, ...call.headers } });
  const refusal = (status: number, code: number, reason: string): object => ({
    status,
    reason,
    body: { error: expect.stringMatching(/\w+ \w+/), code, reason },
  });

  beforeAll(async () => {
    mesh = await TestMesh.open((deps) => {
      pipeline = createXdsPipeline({ ...deps, gate, transcoderDescriptor: restDescriptor() });
      return pipeline.server;
    });
    door = new GrpcDoor(mesh.ports.http);
    ranker = {
      ...rankerOn(mesh.servingPorts),
      tenants: [
        { name: "acme", keys: [{ id: "k1", sha256: sha256(KEY) }], models: ["*"] },
        { name: "beta", keys: [{ id: "k1", sha256: sha256(BETA_KEY) }], models: ["ranker-lite"] },
      ],
    };
    mesh.startEnvoy(binary ?? "");
    await mesh.untilConnected();
    expect(await apply(ranker)).toEqual([]);
    await mesh.untilOpen();
  });

  beforeEach(() => mesh.calm());

  afterAll(async () => {
    door?.close();
    await mesh?.close();
  });

  it.each([
    [PREDICT, "ranker/prod"],
    ["/v1/models/ranker@prod:predict", "ranker/prod"],
    ["/v1/models/ranker/versions/41:predict", "ranker/41"],
    ["/v1/models/ranker/labels/prod:predict", "ranker/prod"],
    ["/v2/models/ranker/infer", "ranker/prod"],
    ["/v2/models/ranker%3A42/infer", "ranker/42"],
    ["/v2/models/ranker/versions/43/infer", "ranker/43"],
    ["/v2/models/ranker-lite/infer?model=evil", "ranker-lite/prod"],
  ])("brings POST %s to %s", async (path, route) => {
    const answer = await rest(path);
    expect(answer.status).toBe(200);
    const [seen] = mesh
      .seenBy("stable", "stable2", "canary", "lite", "shadow")
      .filter(({ headers }) => headers["x-servemesh-leg"] === "primary");
    expect(seen?.headers).toMatchObject({
      "x-servemesh-route": route,
      "x-servemesh-version": answer.servedBy,
      "x-servemesh-tenant": "acme",
      "x-servemesh-priority": "interactive",
      "x-request-id": answer.requestId,
    });
    expect(JSON.stringify(seen)).not.toMatch(new RegExp(`${KEY}|evil`));
    expect(seen?.remainingMs).toBeLessThanOrEqual(2_000);
  });

  it.each([
    ["ranker", {}, /^ranker:4[12]$/],
    ["ranker@prod", {}, /^ranker:4[12]$/],
    ["ranker:41", {}, /^ranker:41$/],
    ["ranker-lite", {}, /^ranker-lite:1$/],
  ])("brings gRPC calls for %s to its version", async (modelName, headers, version) => {
    const answer = await grpc({ modelName, headers });
    expect(answer).toMatchObject({ code: 0, reason: undefined });
    expect(answer.servedBy).toMatch(version);
  });

  it("answers server-level calls, live and ready without a key", async () => {
    const live = await callRest(mesh.ports.http, { path: "/v2/health/live", method: "GET" });
    expect(live).toMatchObject({ status: 200, body: { method: "ServerLiveV2" } });
    expect((await door.call({ method: "ServerReady" })).code).toBe(0);
    const meta = await callRest(mesh.ports.http, { path: "/v2", method: "GET" });
    expect(meta).toMatchObject(refusal(401, 16, "unauthenticated"));
  });

  it("sticks by the client's key and draws at random without one", async () => {
    await apply(withWeights(ranker, 75, 25));
    const homes = new Set<string | null>();
    for (let user = 0; user < 20; user += 1) {
      const headers = { "x-predict-sticky-key": `user-${user}` };
      const answers = [await rest(PREDICT, { headers }), await rest(PREDICT, { headers })];
      const viaGrpc = await grpc({ headers });
      const served = new Set([...answers.map(({ servedBy }) => servedBy), viaGrpc.servedBy]);
      expect(served.size).toBe(1);
      for (const version of served) homes.add(version ?? null);
    }
    expect(homes).toEqual(new Set(["ranker:41", "ranker:42"]));
    await apply(ranker);
  });

  it("mirrors every call of an alias with a shadow and none of a pinned version", async () => {
    const { requestId } = await callRest(mesh.ports.http, {
      path: PREDICT,
      headers: { authorization: `Bearer ${KEY}` },
    });
    await grpc();
    await rest("/v2/models/ranker/versions/41/infer");
    await expect.poll(() => mesh.seenBy("shadow").length, { timeout: PATIENCE_MS }).toBe(2);
    const copy = mesh.seenBy("shadow").find(({ headers }) => headers["x-request-id"] === requestId);
    expect(copy).toMatchObject({ method: "PredictV1", headers: { "x-servemesh-leg": "shadow" } });
    expect(JSON.stringify(mesh.seenBy("shadow", "stable", "stable2", "canary"))).not.toContain(KEY);
  });

  it("falls back for overloaded alone", async () => {
    for (const name of ["stable", "stable2", "canary"] as const) mesh.batchers[name].behaviour = "overloaded";
    expect(await rest(PREDICT, { body: Buffer.alloc(3 * MIB, " ") })).toMatchObject({
      status: 200,
      servedBy: "ranker-lite:1",
    });
    expect(await grpc({ paddingBytes: 3 * MIB })).toMatchObject({ code: 0, servedBy: "ranker-lite:1" });
    expect(await rest("/v2/models/ranker/versions/41/infer")).toMatchObject(refusal(429, 8, "overloaded"));
    for (const name of ["stable", "stable2", "canary"] as const) mesh.batchers[name].behaviour = "quota";
    expect(await rest(PREDICT)).toMatchObject({
      ...refusal(429, 8, "quota"),
      body: { error: "the queue is full", code: 8, reason: "quota" },
    });
    expect(await grpc()).toMatchObject({ code: 8, reason: "quota", details: "the queue is full" });
    expect(mesh.seenBy("lite")).toHaveLength(2);
  });

  it("answers late calls with the deadline, at both doors", async () => {
    for (const batcher of Object.values(mesh.batchers)) batcher.delayMs = 1_000;
    const headers = { "x-predict-timeout-ms": "60" };
    expect(await rest(PREDICT, { headers })).toMatchObject(refusal(504, 4, "deadline"));
    expect(await grpc({ headers })).toMatchObject({ code: 4, reason: "deadline" });
  });

  it("refuses in the mesh's one form, whoever refuses", async () => {
    const refusals = [
      [rest(PREDICT, { headers: { "x-api-key": "wrong" } }), 401, 16, "unauthenticated"],
      [rest(PREDICT, { headers: { "x-api-key": BETA_KEY } }), 403, 7, "forbidden"],
      [rest("/v1/models/nobody:predict"), 404, 5, "model_not_found"],
      [rest("/v1/models/ranker@nobody:predict"), 404, 5, "model_not_found"],
      [rest("/v1/models/ranker/versions/99:predict"), 404, 5, "model_not_found"],
      [rest("/v3/none"), 404, 5, "path_not_found"],
      [rest("/v2/models/a%2Fb/infer"), 400, 3, "bad_input"],
      [rest("/v2/models/a%41/infer"), 400, 3, "bad_input"],
      [rest("/v2/models/ranker:41/versions/42/infer"), 400, 3, "bad_input"],
      [rest(PREDICT, { headers: { "content-encoding": "gzip" } }), 415, 3, "unsupported_media_type"],
      [rest(PREDICT, { method: "GET" }), 405, 12, "method_not_allowed"],
      [rest(PREDICT, { body: Buffer.alloc(4 * MIB + 1, " ") }), 413, 8, "too_large"],
    ] as const;
    for (const [answer, status, code, reason] of refusals) {
      expect(await answer).toMatchObject(refusal(status, code, reason));
    }
    expect(await grpc({ modelName: "nobody" })).toMatchObject({ code: 5, reason: "model_not_found" });
    expect(await grpc({ method: "Nothing" })).toMatchObject({ code: 12, reason: "path_not_found" });
    expect(await grpc({ paddingBytes: 4 * MIB })).toMatchObject({ code: 8, reason: "too_large" });
    expect(await grpc({ headers: { "x-api-key": "wrong" } })).toMatchObject({ code: 16, reason: "unauthenticated" });
    expect(mesh.seenBy("stable", "stable2", "canary", "shadow", "lite")).toEqual([]);
  });

  it("adds a model routes first and gate last, removes it gate first; its callers see 404, 200, 404 and nothing between", async () => {
    const others = mesh.load(() => rest(PREDICT));
    const own = mesh.load(() => rest("/v2/models/echo/infer"));
    const ownCalls = mesh.load(() => grpc({ modelName: "echo" }));
    for (let round = 0; round < 3; round += 1) {
      const countBefore = own.outcomes.length;
      await expect.poll(() => own.outcomes.length, { timeout: PATIENCE_MS }).toBeGreaterThan(countBefore);
      await apply(withEcho(ranker, mesh.echoAddress));
      expect(mesh.wire.at(-1)).toBe("TypedExtensionConfig: gate");
      expect((await rest("/v2/models/echo/infer")).servedBy).toBe("echo:1");
      expect((await grpc({ modelName: "echo" })).servedBy).toBe("echo:1");
      await apply(ranker);
      const [gateAt = 0, scopeAt = 0, clusterAt = 0] = [
        "TypedExtensionConfig: gate",
        "ScopedRouteConfiguration: -echo",
        "Cluster: -model/echo/1",
      ].map((line) => mesh.wire.indexOf(line));
      expect(gateAt).toBeGreaterThanOrEqual(0);
      expect(scopeAt).toBeGreaterThan(gateAt);
      expect(clusterAt).toBeGreaterThan(scopeAt);
      expect((await rest("/v2/models/echo/infer")).status).toBe(404);
    }
    const seen = (await own.stop()).map(({ status, reason }) => `${status} ${reason}`);
    const refused = "404 model_not_found";
    const served = "200 null";
    expect(new Set(seen)).toEqual(new Set([refused, served]));
    expect(new Set((await ownCalls.stop()).map(({ code, reason }) => `${code} ${reason}`))).toEqual(
      new Set(["5 model_not_found", "0 undefined"]),
    );
    expect(new Set((await others.stop()).map(({ status }) => status))).toEqual(new Set([200]));
  });

  it("lets a new key in and a revoked one out without touching anything else", async () => {
    const newKey = "acme-key-of-the-test-00000000003";
    const withKeys = (...keys: string[]): StateFixture => {
      const [acme, ...others] = ranker.tenants ?? [];
      return {
        ...ranker,
        tenants: [{ ...acme, keys: keys.map((key) => ({ id: key.slice(-2), sha256: sha256(key) })) }, ...others],
      };
    };
    await apply(withKeys(KEY, newKey));
    expect(mesh.wire).toEqual(["TypedExtensionConfig: gate"]);
    expect((await rest(PREDICT, { headers: { "x-api-key": newKey } })).status).toBe(200);
    await apply(withKeys(KEY));
    expect((await rest(PREDICT, { headers: { "x-api-key": newKey } })).status).toBe(401);
    expect((await rest(PREDICT)).status).toBe(200);
  });

  it("keeps the gate that works when the next one fails its trial", async () => {
    gateProblem = "proxy_on_configure returned 0";
    const findings = await apply(withEcho(ranker, mesh.echoAddress));
    expect(findings).toMatchObject([{ subject: "gate", message: expect.stringContaining(gateProblem) }]);
    expect(mesh.wire.join()).not.toContain("TypedExtensionConfig");
    expect((await rest("/v2/models/echo/infer")).status).toBe(404);
    expect((await rest(PREDICT)).status).toBe(200);
    gateProblem = undefined;
    await apply(ranker);
  });

  it("goes on while the control plane is away and needs nothing again when it is back", async () => {
    const load = mesh.load(() => rest(PREDICT));
    mesh.stopControlPlane();
    await pause(200);
    await mesh.startControlPlane();
    await mesh.untilConnected();
    await apply(ranker);
    const resent = mesh.wire.filter((line) => !/^(ClusterLoadAssignment: .*|[A-Za-z]+: )$/.test(line));
    expect(resent).toEqual([]);
    expect(new Set((await load.stop()).map(({ status }) => status))).toEqual(new Set([200]));
  });
});
