import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { planMesh } from "../plan/plan.js";
import { rankerOn, type StateFixture, stateOf, withEcho, withWeights } from "../plan/state-fixture.js";
import { CLUSTER_TYPE, isResourceType } from "../snapshot/resource-types.js";
import { buildSnapshot, inconsistencies, type Snapshot } from "../snapshot/snapshot.js";
import { withOpenGate, withRouteOfClient } from "../translate/open-gate-fixture.js";
import type { MeshResources } from "../translate/translate.js";
import { translate } from "../translate/translate-fixture.js";
import { callRest, type GrpcAnswer, GrpcDoor, type RestAnswer } from "./doors-fixture.js";
import { type AdsApiType, envoyBinary } from "./envoy-fixture.js";
import { PATIENCE_MS, pause, restDescriptor, TestMesh } from "./mesh-fixture.js";
import { XdsServer } from "./xds-server.js";

/** How states travel to a real Envoy: order, refusals, reconnects. The client of this test names the route itself. */
const binary = envoyBinary();
if (binary === undefined) console.info("skipped: no Envoy; run `npm run setup` or set ENVOY_BIN");

/** Long enough for a loop between Envoy and us to show; a good run sends nothing in it. */
const SILENCE_MS = 500;

const FORMS: readonly { form: string; apiType: AdsApiType }[] = [
  { form: "delta", apiType: "DELTA_GRPC" },
  { form: "state of the world", apiType: "GRPC" },
];

describe.skipIf(binary === undefined).each(FORMS)("delivery to a real Envoy by $form", ({ apiType }) => {
  let mesh: TestMesh;
  let door: GrpcDoor;
  let ranker: StateFixture;
  let snapshot: Snapshot | undefined;

  function resourcesOf(fixture: StateFixture): MeshResources {
    return translate(planMesh(stateOf(fixture)), { gate: undefined, transcoderDescriptor: restDescriptor() });
  }

  /** Publishes resources and waits until Envoy has taken, or refused, all of them. */
  async function publish(resources: MeshResources): Promise<void> {
    mesh.wire.length = 0;
    snapshot = buildSnapshot(resources, snapshot);
    mesh.xds.setSnapshot(snapshot);
    expect(await mesh.settled()).toEqual({ settled: true, unsettled: [] });
  }

  /** The same for a state that must be good. */
  async function publishGood(fixture: StateFixture): Promise<void> {
    const resources = withOpenGate(resourcesOf(fixture));
    expect(inconsistencies(buildSnapshot(resources))).toEqual([]);
    await publish(resources);
    expect(mesh.xds.findings()).toEqual([]);
  }

  const rest = (route: string): Promise<RestAnswer> =>
    callRest(mesh.ports.http, { path: "/v2/models/ranker/infer", headers: { "x-test-route": route } });
  const grpc = (route: string): Promise<GrpcAnswer> => door.call({ headers: { "x-test-route": route } });
  const typesOnWire = (): string[] => mesh.wire.map((line) => line.slice(0, line.indexOf(":")));
  const statuses = (answers: readonly RestAnswer[]): Set<number> => new Set(answers.map(({ status }) => status));
  const nackOf = (type: string): string | undefined =>
    mesh.xds.status()[0]?.types.find(({ typeUrl }) => typeUrl.endsWith(`.${type}`))?.nack;

  beforeAll(async () => {
    mesh = await TestMesh.open((deps) => new XdsServer(deps));
    door = new GrpcDoor(mesh.ports.http);
    ranker = rankerOn(mesh.servingPorts);
    mesh.startEnvoy(binary ?? "", apiType);
    await mesh.untilConnected();
    await publish(withRouteOfClient(resourcesOf(ranker)));
    await mesh.untilOpen();
  });

  beforeEach(() => mesh.calm());

  afterAll(async () => {
    door?.close();
    await mesh?.close();
  });

  it("opens the port although there is no gate yet, lets nobody pass, and says unavailable", async () => {
    const body = { error: expect.stringContaining("gate"), code: 14, reason: "unavailable" };
    expect(await rest("ranker/prod")).toMatchObject({ status: 503, reason: "unavailable", body });
    expect(await grpc("ranker/prod")).toMatchObject({ code: 14, reason: "unavailable" });
    expect(mesh.seenBy("stable", "stable2", "canary")).toEqual([]);
  });

  it("brings everything first time, without a refusal, and tells so", async () => {
    await publishGood(ranker);
    const [node] = mesh.xds.status();
    expect(node).toMatchObject({ nodeId: "gateway-1" });
    expect(node?.types).toHaveLength(6);
    for (const { typeUrl, sentVersion, ackedVersion, nack } of node?.types ?? []) {
      const version = isResourceType(typeUrl) ? snapshot?.typeVersions[typeUrl] : "no such type";
      expect({ typeUrl, sentVersion, ackedVersion, nack }).toEqual({
        typeUrl,
        sentVersion: version,
        ackedVersion: version,
        nack: "",
      });
    }
    expect(mesh.envoy.log()).not.toContain("rejected");
    expect(await mesh.envoy.stat("cluster_manager.cds.update_rejected")).toBe(0);
    expect((await rest("ranker/prod")).status).toBe(200);
  });

  it("sends one route table for a new weight", async () => {
    await publishGood(withWeights(ranker, 80, 20));
    expect(mesh.wire).toEqual(["RouteConfiguration: routes/ranker"]);
    await publishGood(ranker);
  });

  it("adds and removes a model in order: callers of others notice nothing, its own see 404, then 200, then 404", async () => {
    await publishGood(ranker);
    const others = mesh.load(() => rest("ranker/prod"));
    const own = mesh.load(() => rest("echo/prod"));
    await expect.poll(() => own.outcomes.length, { timeout: PATIENCE_MS }).toBeGreaterThan(0);
    await publishGood(withEcho(ranker, mesh.echoAddress));
    const [clusters, endpoints, ...later] = typesOnWire();
    expect([clusters, endpoints]).toEqual(["Cluster", "ClusterLoadAssignment"]);
    expect(later.slice(-2)).toEqual(["ScopedRouteConfiguration", "RouteConfiguration"]);
    await expect.poll(() => own.outcomes.at(-1)?.status, { timeout: PATIENCE_MS }).toBe(200);
    await publishGood(ranker);
    expect(mesh.wire.indexOf("ScopedRouteConfiguration: -echo")).toBeGreaterThanOrEqual(0);
    expect(mesh.wire.at(-1)).toBe("Cluster: -model/echo/1");
    await expect.poll(() => own.outcomes.at(-1)?.status, { timeout: PATIENCE_MS }).toBe(404);
    const seen = (await own.stop()).map(({ status }) => status);
    expect(seen.filter((status, index) => status !== seen[index - 1])).toEqual([404, 200, 404]);
    expect(statuses(await others.stop())).toEqual(new Set([200]));
  });

  it("takes the last endpoint of a version away and gives it back without a failed call", async () => {
    const load = mesh.load(() => rest("ranker/prod"));
    const calls = mesh.load(() => grpc("ranker/prod"));
    for (let round = 0; round < 5; round += 1) {
      await publishGood({ ...ranker, ready: { ...ranker.ready, "ranker:41": [], "ranker:42": [] } });
      const [routes, emptied] = ["RouteConfiguration: ", "model/ranker/41"].map((text) =>
        mesh.wire.findLastIndex((line) => line.includes(text)),
      );
      expect(emptied).toBeGreaterThan(routes ?? 0);
      expect(await rest("ranker/prod")).toMatchObject({ status: 200, servedBy: "ranker-lite:1" });
      await publishGood(ranker);
    }
    expect(statuses(await load.stop())).toEqual(new Set([200]));
    expect(new Set((await calls.stop()).map(({ code }) => code))).toEqual(new Set([0]));
  });

  it("says unavailable, and not unknown, when no version is ready", async () => {
    await publishGood({ ...ranker, ready: {} });
    for (const route of ["ranker/prod", "ranker/41", "_server/ready"]) {
      const body = { error: "no replica of this model is ready", code: 14, reason: "unavailable" };
      const answer = await rest(route);
      expect(answer).toMatchObject({
        status: 503,
        reason: "unavailable",
        body: { ...body, error: expect.any(String) },
      });
      expect(answer.headers.get("retry-after")).toBe("1");
      expect(await grpc(route)).toMatchObject({ code: 14, reason: "unavailable" });
    }
    await publishGood(ranker);
    expect((await rest("ranker/prod")).status).toBe(200);
  });

  it("warms a changed cluster at once, because its endpoints are sent again", async () => {
    const load = mesh.load(() => rest("ranker/prod"));
    const resources = resourcesOf(ranker);
    const clusters = resources.clusters.map((cluster) => ({ ...cluster, connectTimeout: { seconds: 2, nanos: 0 } }));
    await publish(withOpenGate({ ...resources, clusters }));
    expect(typesOnWire()).toEqual(["Cluster", "ClusterLoadAssignment"]);
    // Without them each cluster would have stayed cold until its fetch timed out.
    expect(await mesh.envoy.stat("cluster.model/ranker/41.init_fetch_timeout")).toBe(0);
    await publishGood(ranker);
    expect(statuses(await load.stop())).toEqual(new Set([200]));
  });

  it("keeps the last good routes after a refusal, shows Envoy's words, and does not loop", async () => {
    const load = mesh.load(() => rest("ranker/prod"));
    const resources = resourcesOf(withWeights(ranker, 50, 50));
    // An error that only Envoy can find: a virtual host without a domain.
    const routes = resources.routes.map((table) =>
      table.name === "routes/ranker"
        ? { ...table, virtualHosts: table.virtualHosts.map((host) => ({ ...host, domains: [] })) }
        : table,
    );
    await publish(withOpenGate({ ...resources, routes }));
    expect(mesh.xds.findings()).toMatchObject([{ subject: "routes/ranker", severity: "error" }]);
    expect(nackOf("RouteConfiguration")).toMatch(/^routes\/ranker: \w/);
    await pause(SILENCE_MS);
    expect(mesh.wire).toEqual(["RouteConfiguration: routes/ranker"]);
    // Later good news about others is not held up by it.
    const echo = resourcesOf(withEcho(ranker, mesh.echoAddress));
    const stillBad = routes.filter(({ name }) => name === "routes/ranker");
    await publish(
      withOpenGate({ ...echo, routes: [...stillBad, ...echo.routes.filter(({ name }) => name !== "routes/ranker")] }),
    );
    expect((await rest("echo/prod")).status).toBe(200);
    expect(statuses(await load.stop())).toEqual(new Set([200]));
    await publishGood(ranker);
    expect(nackOf("RouteConfiguration")).toBe("");
  });

  it("finds the bad one of several clusters, brings the good ones, and holds back only what needs the bad one", async () => {
    const load = mesh.load(() => rest("ranker/prod"));
    const resources = resourcesOf(withEcho(ranker, mesh.echoAddress));
    // A cluster that Envoy refuses, in one response with two that it would take.
    const clusters = resources.clusters.map((cluster) =>
      cluster.name === "model/ranker-lite/1"
        ? { ...cluster, connectTimeout: { seconds: 0, nanos: 0 } }
        : { ...cluster, connectTimeout: { seconds: 3, nanos: 0 } },
    );
    await publish(withOpenGate({ ...resources, clusters }));
    expect(mesh.xds.findings()).toMatchObject([{ subject: "model/ranker-lite/1", severity: "error" }]);
    expect(nackOf("Cluster")).toBe(
      "model/ranker-lite/1: Proto constraint validation failed (ClusterValidationError.ConnectTimeout: value must be greater than 0s)",
    );
    const sent = mesh.wire.length;
    await pause(SILENCE_MS);
    expect(mesh.wire).toHaveLength(sent);
    expect((await rest("echo/prod")).status).toBe(200);
    expect((await rest("ranker-lite/prod")).status).toBe(200);
    expect(statuses(await load.stop())).toEqual(new Set([200]));
    await publishGood(ranker);
  });

  it("survives a restart of the control plane: nothing is sent before its first state, then only what changed", async () => {
    await publishGood(withEcho(ranker, mesh.echoAddress));
    const load = mesh.load(() => rest("ranker/prod"));
    mesh.stopControlPlane();
    await pause(200);
    mesh.wire.length = 0;
    await mesh.startControlPlane();
    await mesh.untilConnected();
    await pause(SILENCE_MS);
    expect(mesh.wire).toEqual([]);
    // The model was deleted while nobody told Envoy.
    await publishGood(withWeights(ranker, 70, 30));
    // An equal version needs no answer; delta has none for a whole type, so it gets an empty one.
    const unchanged = apiType === "GRPC" ? [] : ["Listener: "];
    expect(mesh.wire.filter((line) => line.startsWith("Listener"))).toEqual(unchanged);
    expect(mesh.wire.filter((line) => line.startsWith("RouteConfiguration"))).toEqual([
      expect.stringContaining("routes/ranker"),
    ]);
    if (apiType === "DELTA_GRPC") {
      // State of the world names no removals, and a new process does not know what there was to remove.
      expect(mesh.wire).toContain("ScopedRouteConfiguration: -echo");
      expect(mesh.wire.at(-1)).toBe("Cluster: -model/echo/1");
    }
    expect((await rest("echo/prod")).status).toBe(404);
    expect(statuses(await load.stop())).toEqual(new Set([200]));
    expect(snapshot?.byType[CLUSTER_TYPE].has("model/echo/1")).toBe(false);
  });

  it("removes in order what was deleted while the stream was broken: its callers see 200, then 404, nothing between", async () => {
    await publishGood(withEcho(ranker, mesh.echoAddress));
    const own = mesh.load(() => rest("echo/prod"));
    await expect.poll(() => own.outcomes.at(-1)?.status, { timeout: PATIENCE_MS }).toBe(200);
    mesh.wire.length = 0;
    mesh.xds.endStreams();
    snapshot = buildSnapshot(withOpenGate(resourcesOf(ranker)), snapshot);
    mesh.xds.setSnapshot(snapshot);
    await expect.poll(() => mesh.wire.at(-1), { timeout: PATIENCE_MS }).toBe("Cluster: -model/echo/1");
    expect(mesh.wire).toContain("ScopedRouteConfiguration: -echo");
    await expect.poll(() => own.outcomes.at(-1)?.status, { timeout: PATIENCE_MS }).toBe(404);
    const seen = (await own.stop()).map(({ status }) => status);
    expect(seen.filter((status, index) => status !== seen[index - 1])).toEqual([200, 404]);
    expect(await mesh.settled()).toEqual({ settled: true, unsettled: [] });
  });
});
