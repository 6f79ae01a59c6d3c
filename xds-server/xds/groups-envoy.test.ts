import { createHash } from "node:crypto";
import { createServer, type Server } from "node:net";
import { loadGateModule } from "@servemesh/wasm-filters";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { gateToolsOf } from "../gate-compiler.js";
import { rankerOn, type StateFixture, stateOf, withWeights } from "../plan/state-fixture.js";
import { createXdsPipeline, type XdsPipeline } from "../xds-pipeline.js";
import { callRest, type RestAnswer } from "./doors-fixture.js";
import { type EnvoySettings, envoyBinary, type RunningEnvoy, startEnvoy } from "./envoy-fixture.js";
import { PATIENCE_MS, restDescriptor, TestMesh } from "./mesh-fixture.js";
import { freePorts } from "./ports-fixture.js";

/**
 * Real Envoys of several groups at one control plane: two gateways, the sidecar of an application, and one that nobody
 * wrote a record for.
 */
const binary = envoyBinary();
if (binary === undefined) console.info("skipped: no Envoy; run `npm run setup` or set ENVOY_BIN");

const KEY = "acme-key-of-the-test-00000000001";
const SUITE_MS = 60_000;

interface Ports {
  readonly admin: readonly [first: number, second: number, sidecar: number, stranger: number];
  readonly sidecar: number;
  readonly moved: number;
  readonly taken: number;
}

describe.skipIf(binary === undefined)("Envoys of different groups", () => {
  let mesh: TestMesh;
  let pipeline: XdsPipeline;
  let ports: Ports;
  let state: StateFixture;
  const envoys: RunningEnvoy[] = [];

  const call = (port: number, model: string): Promise<RestAnswer> =>
    callRest(port, { path: `/v1/models/${model}:predict`, headers: { "x-api-key": KEY } });

  async function apply(next: StateFixture): Promise<void> {
    state = next;
    pipeline.apply(stateOf(next), {});
    expect(await mesh.xds.whenSettled(PATIENCE_MS)).toEqual({ settled: true, unsettled: [] });
  }

  /** The state with another port of the gateways' group. */
  const onPort = (httpPort: number): StateFixture => ({
    ...state,
    gateways: (state.gateways ?? []).map((gateway) =>
      gateway.name === "default" ? { ...gateway, httpPort } : gateway,
    ),
  });

  function start(adminPort: number, node: Pick<EnvoySettings, "nodeId" | "role" | "labels">): void {
    const common = { binary: binary ?? "", adsPort: mesh.ports.ads, adminPort, apiType: "DELTA_GRPC" } as const;
    envoys.push(startEnvoy({ ...common, ...node }));
  }

  /** `address:port` of each listener that an Envoy has open. */
  async function listenersOf(adminPort: number): Promise<string[]> {
    const text = await fetch(`http://127.0.0.1:${adminPort}/listeners`).then((response) => response.text());
    return [...text.matchAll(/::(\S+)/g)].map(([, address]) => address ?? "");
  }

  const clustersOf = (adminPort: number): Promise<string> =>
    fetch(`http://127.0.0.1:${adminPort}/clusters`).then((response) => response.text());

  beforeAll(async () => {
    mesh = await TestMesh.open((deps) => {
      const gate = gateToolsOf(loadGateModule().bytes);
      pipeline = createXdsPipeline({ ...deps, gate, transcoderDescriptor: restDescriptor() });
      return pipeline.server;
    });
    const [first = 0, second = 0, third = 0, fourth = 0, sidecar = 0, moved = 0, taken = 0] = await portsBeside(
      mesh,
      7,
    );
    ports = { admin: [first, second, third, fourth], sidecar, moved, taken };
    const ranker = rankerOn(mesh.servingPorts);
    const sha256 = createHash("sha256").update(KEY).digest();
    const shop = { role: "sidecar", httpPort: sidecar, labels: { app: "shop" }, models: ["ranker-lite"] };
    state = {
      ...ranker,
      tenants: [{ name: "acme", keys: [{ id: "k1", sha256 }], models: ["*"] }],
      gateways: [...(ranker.gateways ?? []), { name: "shop", ...shop }],
    };
    start(first, { nodeId: "gateway-1" });
    start(second, { nodeId: "gateway-2" });
    start(third, { nodeId: "shop-1", role: "sidecar", labels: { app: "shop", more: "is allowed" } });
    start(fourth, { nodeId: "stranger", role: "sidecar", labels: { app: "other" } });
    pipeline.apply(stateOf(state), {});
    const hasAll = (): void => expect(mesh.xds.status().map(({ nodeId }) => nodeId)).toHaveLength(4);
    await vi.waitFor(hasAll, { timeout: PATIENCE_MS });
    await apply(state);
    for (const [adminPort, address] of [
      [first, mesh.ports.http],
      [second, mesh.ports.http],
      [third, sidecar],
    ] as const) {
      const isOpen = async (): Promise<void> => expect(await listenersOf(adminPort)).toEqual([`127.0.0.1:${address}`]);
      await vi.waitFor(isOpen, { timeout: PATIENCE_MS });
    }
  }, SUITE_MS);

  afterAll(async () => {
    await Promise.all(envoys.map((envoy) => envoy.stop()));
    await mesh?.close();
  });

  it("serve what their record says: all models, or those of one application", async () => {
    expect((await call(mesh.ports.http, "ranker")).status).toBe(200);
    expect((await call(ports.sidecar, "ranker-lite")).servedBy).toBe("ranker-lite:1");
    expect(await call(ports.sidecar, "ranker")).toMatchObject({ status: 404, reason: "model_not_found" });
    const ofSidecar = await clustersOf(ports.admin[2]);
    expect(ofSidecar).toContain("model/ranker-lite/1");
    expect(ofSidecar).not.toContain("model/ranker/41");
  });

  it("tell an Envoy without a record nothing, and say so", async () => {
    expect(await listenersOf(ports.admin[3])).toEqual([]);
    expect(await clustersOf(ports.admin[3])).not.toContain("model/");
    expect(mesh.xds.findings()).toEqual([
      { severity: "warning", subject: "stranger", message: expect.stringContaining("fits no gateway record") },
    ]);
  });

  it("do not hear of changes outside their scope", async () => {
    const before = mesh.xds.status().find(({ nodeId }) => nodeId === "shop-1");
    await apply(withWeights(state, 90, 10));
    expect(mesh.xds.status().find(({ nodeId }) => nodeId === "shop-1")).toEqual(before);
  });

  it("are spared a listener that one of them refuses, and get it when it works", async () => {
    const occupant = await occupy(ports.taken);
    const good = mesh.ports.http;
    await apply(onPort(ports.taken));
    const trials = mesh.xds.findings().filter(({ message }) => message.includes('no other gateway of "default"'));
    expect(trials).toEqual([
      { severity: "error", subject: "gateway", message: expect.stringMatching(/refused this Listener.*ddress/) },
    ]);
    expect(await listenersOf(ports.admin[0])).toEqual([`127.0.0.1:${good}`]);
    expect(await listenersOf(ports.admin[1])).toEqual([`127.0.0.1:${good}`]);
    const refusing = mesh.xds.status().filter(({ types }) => types.some(({ nack }) => nack !== ""));
    expect(refusing, "only one was given it").toHaveLength(1);
    expect((await call(good, "ranker")).status).toBe(200);
    await new Promise((resolve) => occupant.close(resolve));

    await apply(onPort(ports.moved));
    expect(mesh.xds.findings().filter(({ severity }) => severity === "error")).toEqual([]);
    for (const adminPort of ports.admin.slice(0, 2)) {
      const hasMoved = async (): Promise<void> =>
        expect(await listenersOf(adminPort)).toContain(`127.0.0.1:${ports.moved}`);
      await vi.waitFor(hasMoved, { timeout: PATIENCE_MS });
    }
    expect((await call(ports.moved, "ranker")).status).toBe(200);
  });
});

/** Free ports that the mesh does not use later on. */
async function portsBeside(mesh: TestMesh, count: number): Promise<number[]> {
  const later = Object.values(mesh.ports);
  const ports = await freePorts(count + later.length);
  return ports.filter((port) => !later.includes(port)).slice(0, count);
}

/** Takes a port so that no Envoy can. */
function occupy(port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => resolve(server));
  });
}
