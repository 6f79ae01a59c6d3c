import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { connect } from "node:http2";
import { request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { H_GRPC_TIMEOUT, H_LEG, H_SHADOW_CLUSTER } from "@servemesh/proto/names";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { planMesh } from "../plan/plan.js";
import { rankerOn, type StateFixture, stateOf, withWeights } from "../plan/state-fixture.js";
import { secretPairOf } from "../secrets/pair-fixture.js";
import { buildSnapshot, inconsistencies, type Snapshot } from "../snapshot/snapshot.js";
import { withOpenGate } from "../translate/open-gate-fixture.js";
import { translate } from "../translate/translate-fixture.js";
import type { SeenCall } from "./batcher-fixture.js";
import { selfSignedCertificate } from "./certificate-fixture.js";
import { callRest, type GrpcAnswer, type GrpcCall, GrpcDoor, type RestAnswer, type RestCall } from "./doors-fixture.js";
import { envoyBinary } from "./envoy-fixture.js";
import { PATIENCE_MS, restDescriptor, TestMesh } from "./mesh-fixture.js";
import { XdsServer } from "./xds-server.js";

/**
 * What `translate` makes, on a real Envoy and at both kinds of doors. The gate is left out: the client of this test names
 * the route itself. With the real gate: envoy-gate.test.ts.
 */
const binary = envoyBinary();
if (binary === undefined) console.info("skipped: no Envoy; run `npm run setup` or set ENVOY_BIN");

const MIB = 1024 * 1024;
const INFER = "/v2/models/ranker/infer";

/** Status of a call to ranker 41 that shares no connection with others. */
function statusOnNewConnection(port: number, body: Buffer): Promise<number | undefined> {
  const headers = { "content-type": "application/json", "x-test-route": "ranker/41", connection: "close" };
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, path: INFER, method: "POST", headers, agent: false };
    const call = httpRequest(options, (response) => resolve(response.resume().statusCode));
    call.once("error", reject).end(body);
  });
}

/** Status of a REST call to ranker 41 over HTTP/2. */
function statusOverHttp2(port: number, body: Buffer): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const session = connect(`http://127.0.0.1:${port}`);
    session.once("error", reject);
    const headers = { "content-type": "application/json", "x-test-route": "ranker/41" };
    const stream = session.request({ ":method": "POST", ":path": INFER, ...headers });
    stream.once("error", reject);
    stream.once("response", (answer) => {
      resolve(answer[":status"]);
      session.destroy();
    });
    stream.end(body);
  });
}

describe.skipIf(binary === undefined)("a real Envoy's routes and doors", () => {
  let dir: string;
  let accessLogPath: string;
  const certificate = selfSignedCertificate();
  let mesh: TestMesh;
  let door: GrpcDoor;
  let ranker: StateFixture;
  let snapshot: Snapshot | undefined;

  /** Publishes a state and waits until Envoy has taken all of it. */
  async function publish(fixture: StateFixture): Promise<void> {
    const plan = planMesh(stateOf(fixture));
    const secrets = new Map([["default", secretPairOf(certificate)]]);
    const settings = { gate: undefined, transcoderDescriptor: restDescriptor(), accessLogPath, secrets };
    snapshot = buildSnapshot(withOpenGate(translate(plan, settings)), snapshot);
    expect(inconsistencies(snapshot)).toEqual([]);
    mesh.xds.setSnapshot(snapshot);
    expect(await mesh.settled()).toEqual({ settled: true, unsettled: [] });
    expect(mesh.xds.findings()).toEqual([]);
  }

  const rest = (route: string, call: Partial<RestCall> = {}): Promise<RestAnswer> =>
    callRest(mesh.ports.http, { path: INFER, ...call, headers: { "x-test-route": route, ...call.headers } });
  const grpc = (route: string, call: GrpcCall = {}): Promise<GrpcAnswer> =>
    door.call({ ...call, headers: { "x-test-route": route, ...call.headers } });

  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), "servemesh-doors-"));
    accessLogPath = join(dir, "access.ndjson");
    mesh = await TestMesh.open((deps) => new XdsServer(deps));
    door = new GrpcDoor(mesh.ports.http);
    const [gateway] = rankerOn(mesh.servingPorts).gateways ?? [];
    const tls = {
      tlsPort: mesh.ports.tls,
      // The control plane's matter; the gateway never opens them.
      tlsCertificateFile: "/nowhere/gateway.pem",
      tlsPrivateKeyFile: "/nowhere/gateway.key",
    };
    ranker = { ...rankerOn(mesh.servingPorts), gateways: [{ ...gateway, ...tls }] };
    mesh.startEnvoy(binary ?? "");
    await mesh.untilConnected();
    await publish(ranker);
    await mesh.untilOpen();
  });

  beforeEach(() => mesh.calm());

  afterAll(async () => {
    door?.close();
    await mesh?.close();
    if (dir !== undefined) rmSync(dir, { recursive: true, force: true });
  });

  it.each([
    ["/v1/models/ranker:predict", "PredictV1", { model: "ranker", version: "", label: "" }],
    ["/v1/models/ranker/versions/41:predict", "PredictV1", { model: "ranker", version: "41", label: "" }],
    ["/v1/models/ranker/labels/prod:predict", "PredictV1", { model: "ranker", version: "", label: "prod" }],
    ["/v1/models/ranker@prod:predict", "PredictV1", { model: "ranker@prod", version: "", label: "" }],
    ["/v1/models/ranker%3A41:predict", "PredictV1", { model: "ranker:41", version: "", label: "" }],
    ["/v2/models/ranker/infer", "InferV2", { model: "ranker", version: "", label: "" }],
    ["/v2/models/ranker%40prod/infer", "InferV2", { model: "ranker@prod", version: "", label: "" }],
    ["/v2/models/ranker/versions/41/infer", "InferV2", { model: "ranker", version: "41", label: "" }],
  ])("brings %s to the batcher as %s", async (path, method, call) => {
    const answer = await rest("ranker/41", { path, body: '{"inputs":[]}' });
    expect(answer).toMatchObject({ status: 200, servedBy: "ranker:41", body: { method, rest: call } });
    expect(mesh.seenBy("stable", "stable2")[0]?.rest?.bodyBytes).toBe(13);
  });

  it.each([
    ["/v1/models/ranker", "StatusV1", "ranker/prod"],
    ["/v1/models/ranker/metadata", "MetadataV1", "ranker/prod"],
    ["/v2/models/ranker", "ModelMetadataV2", "ranker/prod"],
    ["/v2/models/ranker/versions/41/ready", "ModelReadyV2", "ranker/41"],
    ["/v2/models/ranker/config", "ModelConfigV2", "ranker/prod"],
    ["/v2", "ServerMetadataV2", "_server/meta"],
    ["/v2/health/live", "ServerLiveV2", "_server/live"],
    ["/v2/health/ready", "ServerReadyV2", "_server/ready"],
  ])("brings GET %s to the batcher as %s", async (path, method, route) => {
    expect(await rest(route, { path, method: "GET" })).toMatchObject({ status: 200, body: { method } });
  });

  it("brings gRPC calls to the batcher unchanged", async () => {
    expect(await grpc("ranker/41")).toEqual({ code: 0, details: "", reason: undefined, servedBy: "ranker:41" });
    expect((await grpc("_server/ready", { method: "ServerReady" })).code).toBe(0);
    expect(mesh.seenBy("stable", "stable2").find(({ method }) => method === "ModelInfer")).toBeDefined();
  });

  it("tells the batcher who it is and what was asked, joins by request id, and drops credentials and forgeries", async () => {
    const answer = await rest("ranker/prod", {
      headers: {
        authorization: "Bearer secret",
        "x-api-key": "secret",
        "x-servemesh-tenant": "forged",
        "X-ServeMesh-Version": "forged",
        "x-request-id": "forged",
        "x-envoy-retry-on": "5xx,forged",
        "x-envoy-upstream-rq-timeout-ms": "600001",
        "x-envoy-original-path": "/forged",
      },
    });
    const [seen] = mesh.seenBy("stable", "stable2", "canary");
    expect(seen?.headers).toMatchObject({
      "x-servemesh-version": answer.servedBy,
      "x-servemesh-first": "ranker:41,ranker:42",
      "x-servemesh-leg": "primary",
      "x-envoy-attempt-count": "1",
      "x-request-id": answer.requestId,
    });
    expect(JSON.stringify(seen)).not.toMatch(/secret|forged|600001/);
    mesh.calm();
    await rest("ranker/41");
    expect(mesh.seenBy("stable", "stable2")[0]?.headers["x-servemesh-first"]).toBe("ranker:41");
  });

  it("draws the split by weight, sticks by key, and leaves weight 0 out", async () => {
    await publish(withWeights(ranker, 75, 25));
    const servedBy = async (count: number, sticky?: string): Promise<(string | null)[]> => {
      const headers: Record<string, string> = sticky === undefined ? {} : { "x-test-sticky": sticky };
      const answers: (string | null)[] = [];
      for (let index = 0; index < count; index += 1) answers.push((await rest("ranker/prod", { headers })).servedBy);
      return answers;
    };
    const canary = (await servedBy(300)).filter((version) => version === "ranker:42").length;
    // 75 expected; outside these bounds less than once in 10^9 runs.
    expect(canary).toBeGreaterThan(30);
    expect(canary).toBeLessThan(125);
    const users = Array.from({ length: 20 }, (_, index) => `user-${index}`);
    const homes = new Set<string | null>();
    for (const user of users) {
      const [home, ...others] = await servedBy(5, user);
      expect(new Set(others)).toEqual(new Set([home]));
      homes.add(home ?? null);
    }
    expect(homes).toEqual(new Set(["ranker:41", "ranker:42"]));
    await publish(withWeights(ranker, 100, 0));
    expect(new Set(await servedBy(50))).toEqual(new Set(["ranker:41"]));
    expect((await rest("ranker/42")).servedBy).toBe("ranker:42");
  });

  it("moves an alias under load without a failure, and no late call gets the old version", async () => {
    await publish(withWeights(ranker, 75, 25));
    const load = mesh.load(async () => ({ startedMs: performance.now(), answer: await rest("ranker/prod") }));
    const calls = mesh.load(() => grpc("ranker/prod"));
    await expect
      .poll(() => load.outcomes.some(({ answer }) => answer.servedBy === "ranker:42"), { timeout: PATIENCE_MS })
      .toBe(true);
    await publish(withWeights(ranker, 100, 0));
    const takenMs = performance.now();
    const countThen = load.outcomes.length;
    await expect.poll(() => load.outcomes.length, { timeout: PATIENCE_MS }).toBeGreaterThan(countThen + 30);
    const outcomes = await load.stop();
    expect(new Set(outcomes.map(({ answer }) => answer.status))).toEqual(new Set([200]));
    expect(new Set((await calls.stop()).map(({ code }) => code))).toEqual(new Set([0]));
    // One worker may apply what the main thread has accepted a moment later: main-job.md allows a second.
    const late = outcomes.filter(({ startedMs }) => startedMs > takenMs + 1_000);
    expect(late.filter(({ answer }) => answer.servedBy === "ranker:42")).toEqual([]);
  });

  it("mirrors to the cluster that the gate names, with a limit of its own and without credentials", async () => {
    await publish(ranker);
    const headers = { "x-test-shadow": "model/ranker/43", authorization: "Bearer secret", "x-api-key": "secret" };
    const answer = await rest("ranker/prod", { headers: { ...headers, [H_GRPC_TIMEOUT]: "900m" }, body: '{"a":1}' });
    await grpc("ranker/prod", { headers });
    await expect.poll(() => mesh.seenBy("shadow").length, { timeout: PATIENCE_MS }).toBe(2);
    const isAnswered = ({ headers }: SeenCall): boolean => headers["x-request-id"] === answer.requestId;
    const copy = mesh.seenBy("shadow").find(isAnswered);
    const first = mesh.seenBy("stable", "stable2", "canary").find(isAnswered);
    expect(copy?.headers).toMatchObject({
      [H_LEG]: "shadow",
      "x-servemesh-version": "ranker:43",
      "x-envoy-expected-rq-timeout-ms": "4010",
    });
    expect(copy?.rest).toEqual(first?.rest);
    // On the primary leg the header means "journal this one too".
    expect(first?.headers).toMatchObject({ [H_LEG]: "primary", [H_SHADOW_CLUSTER]: "model/ranker/43" });
    // The copy's limit is the model's twice, 4,000 ms, and not the caller's 900.
    expect(copy?.remainingMs).toBeGreaterThan(900);
    expect(first?.remainingMs).toBeLessThanOrEqual(900);
    expect(JSON.stringify(mesh.seenBy("stable", "stable2", "canary", "shadow"))).not.toContain("secret");
    await rest("ranker/prod");
    await rest("ranker/41", { headers: { "x-test-shadow": "model/ranker/43" } });
    expect(mesh.seenBy("shadow")).toHaveLength(2);
  });

  it("falls back once when a batcher is overloaded, with bodies up to the limit, and never for another refusal", async () => {
    for (const name of ["stable", "stable2", "canary"] as const) mesh.batchers[name].behaviour = "overloaded";
    const body = Buffer.alloc(3 * MIB, " ");
    expect(await rest("ranker/prod", { body })).toMatchObject({ status: 200, servedBy: "ranker-lite:1" });
    expect(await grpc("ranker/prod", { paddingBytes: 3 * MIB })).toMatchObject({ code: 0, servedBy: "ranker-lite:1" });
    const [restCall, grpcCall] = mesh.seenBy("lite");
    expect(restCall?.rest?.bodyBytes).toBe(body.length);
    expect(grpcCall?.messageBytes).toBeGreaterThan(3 * MIB);
    for (const call of mesh.seenBy("lite")) {
      expect(call.headers).toMatchObject({ "x-envoy-attempt-count": "2", "x-servemesh-first": "ranker:41,ranker:42" });
    }
    // Pinned means that version or nothing.
    expect(await grpc("ranker/41")).toMatchObject({ code: 8, reason: "overloaded", details: "the queue is full" });
    for (const name of ["stable", "stable2", "canary"] as const) mesh.batchers[name].behaviour = "quota";
    expect(await rest("ranker/prod")).toMatchObject({ status: 429, reason: "quota" });
    expect(await grpc("ranker/prod")).toMatchObject({ code: 8, reason: "quota" });
    expect(mesh.seenBy("lite")).toHaveLength(2);
  });

  it("falls back from replicas that are gone, as often as it takes, although the registry does not know yet", async () => {
    for (const name of ["stable", "stable2", "canary"] as const) mesh.batchers[name].close();
    // A call on a connection that breaks under it may fail; afterwards none may.
    await rest("ranker/prod");
    const answers: RestAnswer[] = [];
    for (let index = 0; index < 40; index += 1) answers.push(await rest("ranker/prod"));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(new Set(answers.map(({ servedBy }) => servedBy))).toEqual(new Set(["ranker-lite:1"]));
    // A pinned version has nothing to fall back on, and its caller reads no addresses.
    const pinned = await rest("ranker/42");
    expect(pinned).toMatchObject({ status: 503, reason: "unavailable", body: { code: 14, reason: "unavailable" } });
    expect(JSON.stringify(pinned.body)).not.toContain("127.0.0.1");
    expect(await grpc("ranker/42")).toMatchObject({ code: 14, reason: "unavailable" });
    await Promise.all((["stable", "stable2", "canary"] as const).map((name) => mesh.batchers[name].listen()));
    await expect
      .poll(async () => (await rest("ranker/prod")).servedBy, { timeout: PATIENCE_MS })
      .toMatch(/^ranker:4[12]$/);
    await expect.poll(async () => (await rest("ranker/42")).servedBy, { timeout: PATIENCE_MS }).toBe("ranker:42");
  });

  it("answers with the mesh's one error form on both doors", async () => {
    const errors = [
      [await rest("nobody/prod"), 404, 5, "model_not_found"],
      [await rest("ranker/nothing"), 404, 5, "model_not_found"],
      [await rest("ranker/prod", { path: "/v3/none" }), 404, 5, "path_not_found"],
      [await rest("ranker/prod", { path: "/v2/models/a%2Fb/infer" }), 400, 3, "bad_input"],
      [await rest("ranker/prod", { path: "/v2/models/a%5Cb/infer" }), 400, 3, "bad_input"],
      [await rest("ranker/prod", { headers: { "x-large": "x".repeat(70_000) } }), 431, 8, "too_large"],
    ] as const;
    for (const [answer, status, code, reason] of errors) {
      expect(answer).toMatchObject({ status, reason, body: { error: expect.stringMatching(/\w+ \w+/), code, reason } });
      expect(answer.headers.get("content-type")).toBe("application/json");
    }
    expect(await grpc("nobody/prod")).toMatchObject({ code: 5, reason: "model_not_found" });
    expect(await grpc("ranker/nothing")).toMatchObject({ code: 5, reason: "model_not_found" });
  });

  it("enforces the deadline on both doors, slow uploads too", async () => {
    const models = [{ name: "ranker", slo: { deadlineMs: 100 } }, ...(ranker.models ?? []).slice(1)];
    await publish({ ...ranker, models });
    for (const batcher of Object.values(mesh.batchers)) batcher.delayMs = 1_000;
    // The batcher is told the limit too and may be the first to say so, in words of its own that the gate would shape.
    const answers: RestAnswer[] = [];
    const outcomes: GrpcAnswer[] = [];
    while (!answers.some(({ reason }) => reason === "deadline")) answers.push(await rest("ranker/41"));
    while (!outcomes.some(({ reason }) => reason === "deadline")) outcomes.push(await grpc("ranker/41"));
    answers.push(await rest("ranker/41", { headers: { [H_GRPC_TIMEOUT]: "50m" } }));
    outcomes.push(await grpc("ranker/41", { headers: { [H_GRPC_TIMEOUT]: "50m" } }));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([504]));
    expect(answers.find(({ reason }) => reason === "deadline")?.body).toMatchObject({ code: 4, reason: "deadline" });
    expect(new Set(outcomes.map(({ code }) => code))).toEqual(new Set([4]));
    const slow = new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from("{")) });
    const response = await fetch(`http://127.0.0.1:${mesh.ports.http}${INFER}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-test-route": "ranker/41" },
      body: slow,
      duplex: "half",
    } as RequestInit);
    expect(response.status).toBe(504);
    expect(await response.json()).toMatchObject({ code: 4, reason: "deadline" });
    await publish(ranker);
  });

  it("refuses a body over the limit on both doors, and lets large answers pass", async () => {
    const tooLarge = { status: 413, reason: "too_large", body: { code: 8, error: expect.stringContaining("4194304") } };
    expect(await rest("ranker/prod", { body: Buffer.alloc(4 * MIB + 1, " ") })).toMatchObject(tooLarge);
    expect(await grpc("ranker/prod", { paddingBytes: 4 * MIB })).toMatchObject({ code: 8, reason: "too_large" });
    expect(await statusOverHttp2(mesh.ports.http, Buffer.alloc(4 * MIB + 1, " "))).toBe(413);
    expect(mesh.seenBy("stable", "stable2", "canary")).toEqual([]);
    expect(await statusOverHttp2(mesh.ports.http, Buffer.alloc(4 * MIB, " "))).toBe(200);
    expect((await rest("ranker/41", { body: Buffer.alloc(4 * MIB, " ") })).status).toBe(200);
    for (const batcher of Object.values(mesh.batchers)) batcher.paddingBytes = 3 * MIB;
    expect((await rest("ranker/41")).status).toBe(200);
    expect((await grpc("ranker/41")).code).toBe(0);
    const [gateway] = ranker.gateways ?? [];
    await publish({ ...ranker, gateways: [{ ...gateway, maxRequestBytes: 1_048_576n }] });
    // A new limit counts for new connections; Envoy leaves the old ones on the listener that they came by.
    await expect
      .poll(() => statusOnNewConnection(mesh.ports.http, Buffer.alloc(2_000_000, " ")), { timeout: PATIENCE_MS })
      .toBe(413);
    await publish(ranker);
  });

  it("opens a TLS listener with the certificate of the record", async () => {
    const status = await new Promise((resolve, reject) => {
      const { tls: port } = mesh.ports;
      const headers = { "x-test-route": "_server/live" };
      const options = { host: "127.0.0.1", port, path: "/v2/health/live", ca: certificate.certificatePem, headers };
      httpsRequest(options, (response) => resolve(response.resume().statusCode))
        .once("error", reject)
        .end();
    });
    expect(status).toBe(200);
  });

  it("writes one JSON line per call to the access log, without credentials", async () => {
    const headers = { authorization: "Bearer secret", "x-api-key": "secret" };
    const { requestId } = await rest("ranker/41", { headers, path: INFER });
    const refused = await rest("nobody/prod");
    const lines = (): Record<string, unknown>[] =>
      readFileSync(accessLogPath, "utf8")
        .split("\n")
        .slice(0, -1)
        .map((line) => JSON.parse(line));
    await expect
      .poll(() => lines().some(({ request_id }) => request_id === refused.requestId), { timeout: PATIENCE_MS })
      .toBe(true);
    expect(lines().find(({ request_id }) => request_id === requestId)).toMatchObject({
      method: "POST",
      path: INFER,
      route: "ranker/41",
      served_by: "ranker:41",
      cluster: "model/ranker/41",
      status: 200,
      grpc_status: 0,
      attempts: 1,
    });
    expect(lines().find(({ request_id }) => request_id === refused.requestId)).toMatchObject({
      status: 404,
      reason: "model_not_found",
      flags: "NR",
    });
    expect(readFileSync(accessLogPath, "utf8")).not.toContain("secret");
  });
});
