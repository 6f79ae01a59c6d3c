import { credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { ClientResourceStatus } from "@servemesh/proto/gen/envoy/envoy/admin/v3/config_dump_shared.js";
import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import {
  type ClientConfig,
  type ClientConfig_GenericXdsConfig,
  ClientStatusDiscoveryServiceClient,
  ClientStatusRequest,
  type ClientStatusResponse,
  ConfigStatus,
} from "@servemesh/proto/gen/envoy/envoy/service/status/v3/csds.js";
import { Struct } from "@servemesh/proto/gen/envoy/google/protobuf/struct.js";
import { Stage } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";

import type { ControlPlane } from "../control-plane.js";
import { ControlPlaneFixture, registerRanker, SILENCE } from "../control-plane-fixture.js";
import { CLUSTER_TYPE, EXTENSION_TYPE, LISTENER_TYPE, ROUTE_TYPE } from "../snapshot/resource-types.js";
import { SERVING } from "./admin-fixture.js";

/** Three pretended Envoys: one takes everything, one refuses its routes, one never answers about clusters. */
const PATIENCE = { timeout: 8_000, interval: 20 };
const NAMES = ["routes/ranker", "gate", "routes/nobody"];

let fixture: ControlPlaneFixture;
let plane: ControlPlane;
let client: ClientStatusDiscoveryServiceClient;
let token: Metadata;

beforeAll(async () => {
  fixture = new ControlPlaneFixture();
  plane = await fixture.start();
  await registerRanker(fixture.admin(plane));
  fixture.envoy(plane, NAMES, { nodeId: "gateway-good" });
  fixture.envoy(plane, NAMES, {
    nodeId: "gateway-refuses",
    refusal: ({ typeUrl }) => (typeUrl === ROUTE_TYPE ? "bad weight" : undefined),
  });
  fixture.envoy(plane, NAMES, {
    nodeId: "silent",
    refusal: ({ typeUrl }) => (typeUrl === CLUSTER_TYPE ? SILENCE : undefined),
  });
  client = new ClientStatusDiscoveryServiceClient(plane.adminAddress, credentials.createInsecure(), {
    "grpc.max_receive_message_length": -1,
  });
  token = Metadata.fromHttp2Headers({ authorization: `Bearer ${plane.token}` });
  await vi.waitFor(async () => {
    const configs = await fetchStatus({ excludeResourceContents: true });
    expect(configs.map(({ node }) => node?.id)).toEqual(["gateway-good", "gateway-refuses", "silent"]);
    expect(configs.slice(0, 2).every(isSettled)).toBe(true);
    const silent = configs[2]?.genericXdsConfigs ?? [];
    expect(find(silent, CLUSTER_TYPE, "_server")?.configStatus).toBe(ConfigStatus.STALE);
  }, PATIENCE);
});

afterAll(async () => {
  client?.close();
  await fixture.cleanUp();
});

const matching = ($case: "exact" | "prefix" | "suffix", value: string): object => ({
  nodeId: { matchPattern: { $case, value } },
});
const exactly = (value: string): object => matching("exact", value);

function fetchStatus(request: object, metadata = token): Promise<ClientConfig[]> {
  return new Promise((resolve, reject) => {
    client.fetchClientStatus(ClientStatusRequest.fromPartial(request), metadata, (error, response) =>
      error === null ? resolve(response.config) : reject(error),
    );
  });
}

function refusalOf(call: Promise<unknown>): Promise<ServiceError> {
  return call.then(
    () => {
      throw new Error("the call was not refused");
    },
    (error: ServiceError) => error,
  );
}

function isSettled({ genericXdsConfigs }: ClientConfig): boolean {
  const open = [ConfigStatus.STALE, ConfigStatus.NOT_SENT];
  return genericXdsConfigs.length > 0 && genericXdsConfigs.every(({ configStatus }) => !open.includes(configStatus));
}

async function oneNode(nodeId: string, request: object = {}): Promise<ClientConfig_GenericXdsConfig[]> {
  const configs = await fetchStatus({ nodeMatchers: [exactly(nodeId)], ...request });
  expect(configs.map(({ node }) => node?.id)).toEqual([nodeId]);
  return configs[0]?.genericXdsConfigs ?? [];
}

const find = (configs: readonly ClientConfig_GenericXdsConfig[], typeUrl: string, name: string) =>
  configs.find((config) => config.typeUrl === typeUrl && config.name === name);

describe("FetchClientStatus", () => {
  it("says SYNCED, with version and content, of what an Envoy has taken", async () => {
    const configs = await oneNode("gateway-good");
    const routes = find(configs, ROUTE_TYPE, "routes/ranker");
    expect(routes).toMatchObject({
      configStatus: ConfigStatus.SYNCED,
      clientStatus: ClientResourceStatus.ACKED,
      versionInfo: expect.stringMatching(/^[0-9a-f]{32}$/),
      errorState: undefined,
    });
    expect(routes?.xdsConfig?.typeUrl).toBe(ROUTE_TYPE);
    expect(RouteConfiguration.decode(routes?.xdsConfig?.value ?? Buffer.alloc(0)).name).toBe("routes/ranker");
    expect(new Set(configs.map(({ typeUrl }) => typeUrl)).size).toBeGreaterThanOrEqual(6);
    expect(find(configs, LISTENER_TYPE, "gateway")?.configStatus).toBe(ConfigStatus.SYNCED);
  });

  it("says UNKNOWN of a name that does not exist", async () => {
    const nobody = find(await oneNode("gateway-good"), EXTENSION_TYPE, "routes/nobody");
    expect(nobody).toMatchObject({
      configStatus: ConfigStatus.UNKNOWN,
      clientStatus: ClientResourceStatus.DOES_NOT_EXIST,
      xdsConfig: undefined,
    });
  });

  it("says ERROR with Envoy's words, time and the refused content", async () => {
    const routes = find(await oneNode("gateway-refuses"), ROUTE_TYPE, "routes/ranker");
    expect(routes).toMatchObject({
      configStatus: ConfigStatus.ERROR,
      clientStatus: ClientResourceStatus.NACKED,
      versionInfo: "",
      xdsConfig: undefined,
      errorState: { details: "bad weight", versionInfo: expect.stringMatching(/^[0-9a-f]{32}$/) },
    });
    expect(routes?.errorState?.failedConfiguration?.typeUrl).toBe(ROUTE_TYPE);
    expect(routes?.errorState?.lastUpdateAttempt?.getTime()).toBeGreaterThan(1_600_000_000_000);
  });

  it("never shows the gate's module and configuration, which has the digests of keys", async () => {
    const gate = find(await oneNode("gateway-good"), EXTENSION_TYPE, "gate");
    expect(gate?.configStatus).toBe(ConfigStatus.SYNCED);
    expect(gate?.xdsConfig?.typeUrl).toBe("type.googleapis.com/google.protobuf.Struct");
    const shown = JSON.stringify(Struct.unwrap(Struct.decode(gate?.xdsConfig?.value ?? Buffer.alloc(0))));
    expect(shown).toMatch(/"inlineBytes":"sha256:[0-9a-f]{16} \(\d{5,} bytes\)"/);
    expect(shown.length).toBeLessThan(5_000);
  });

  it("leaves contents out when asked to", async () => {
    const configs = await oneNode("gateway-refuses", { excludeResourceContents: true });
    expect(configs.length).toBeGreaterThan(5);
    expect(configs.every((config) => config.xdsConfig === undefined)).toBe(true);
    const routes = find(configs, ROUTE_TYPE, "routes/ranker");
    expect(routes?.errorState).toMatchObject({ details: "bad weight", failedConfiguration: undefined });
  });

  it("matches nodes by exact id and by prefix", async () => {
    const ids = async (...nodeMatchers: object[]): Promise<(string | undefined)[]> =>
      (await fetchStatus({ nodeMatchers, excludeResourceContents: true })).map(({ node }) => node?.id);
    expect(await ids()).toEqual(["gateway-good", "gateway-refuses", "silent"]);
    expect(await ids(matching("prefix", "gateway-"))).toEqual(["gateway-good", "gateway-refuses"]);
    expect(await ids(exactly("silent"), exactly("gateway-good"))).toEqual(["gateway-good", "silent"]);
    expect(await ids(exactly("gateway"))).toEqual([]);
    const error = await refusalOf(ids(matching("suffix", "x")));
    expect([error.code, error.details]).toEqual([
      status.INVALID_ARGUMENT,
      "node_matchers.node_id must be exact or prefix; other kinds are not offered",
    ]);
  });

  it("is closed to callers without the token", async () => {
    for (const metadata of [new Metadata(), Metadata.fromHttp2Headers({ authorization: "Bearer wrong" })]) {
      expect((await refusalOf(fetchStatus({}, metadata))).code).toBe(status.UNAUTHENTICATED);
    }
  });
});

describe("StreamClientStatus", () => {
  it("answers each request in order and ends with its client", async () => {
    const call = client.streamClientStatus(token);
    const answers: ClientStatusResponse[] = [];
    call.on("data", (answer: ClientStatusResponse) => answers.push(answer));
    const ended = new Promise((resolve) => call.on("end", resolve));
    for (const id of ["silent", "gateway-good", "gateway"]) {
      call.write(ClientStatusRequest.fromPartial({ nodeMatchers: [exactly(id)], excludeResourceContents: true }));
    }
    call.end();
    await ended;
    expect(answers.map(({ config }) => config.map(({ node }) => node?.id))).toEqual([["silent"], ["gateway-good"], []]);
  });

  it("ends at once without the token", async () => {
    const call = client.streamClientStatus(new Metadata());
    const failed = new Promise<ServiceError>((resolve) => call.on("error", resolve));
    call.on("data", () => undefined);
    call.write(ClientStatusRequest.fromPartial({}));
    expect((await failed).code).toBe(status.UNAUTHENTICATED);
  });
});

/** The last, because it changes the mesh. */
describe("an Envoy that does not answer", () => {
  it("is STALE in what it was sent, and what waits behind that is NOT_SENT", async () => {
    const admin = fixture.admin(plane);
    await admin.registerVersion({ version: { model: "ranker", version: 43n, serving: SERVING } });
    await admin.moveStage({ model: "ranker", version: 43n, stage: Stage.STAGE_STAGING, reason: "test" });
    await vi.waitFor(async () => {
      const configs = await oneNode("silent");
      expect(find(configs, CLUSTER_TYPE, "model/ranker/41")).toMatchObject({
        configStatus: ConfigStatus.STALE,
        clientStatus: ClientResourceStatus.REQUESTED,
      });
      expect(find(configs, CLUSTER_TYPE, "model/ranker/43")).toMatchObject({
        configStatus: ConfigStatus.NOT_SENT,
        clientStatus: ClientResourceStatus.REQUESTED,
      });
    }, PATIENCE);
  });
});
