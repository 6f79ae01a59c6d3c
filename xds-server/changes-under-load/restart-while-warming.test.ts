import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { clusterName } from "../plan/names.js";
import { envoyBinary } from "../xds/envoy-fixture.js";
import { pause } from "../xds/mesh-fixture.js";
import { ChangingMesh, type LiveModel } from "./changing-mesh-fixture.js";
import { addFirstModels } from "./random-moves-fixture.js";
import { randomOf } from "./seeded-random-fixture.js";

const SEED = 20_261_207;
const RESTARTS = 6;
/** Tries until that many ends of the control plane met a warming cluster; Envoy is sometimes faster than the end. */
const TRIES_MAX = 60;
const TEST_MS = 300_000;

const binary = envoyBinary();
if (binary === undefined) console.info("skipped: no Envoy; run `npm run setup` or set ENVOY_BIN");

/** Stops the control plane as soon as it has written a cluster to an Envoy, so that its endpoints stay unsaid. */
class StopAtCluster {
  #cluster = "";
  #nodeId = "";
  #stop: (() => Promise<void>) | undefined;
  #stopping: Promise<void> | undefined;

  arm(nodeId: string, cluster: string, stop: () => Promise<void>): void {
    this.#nodeId = nodeId;
    this.#cluster = cluster;
    this.#stop = stop;
    this.#stopping = undefined;
  }

  heard({ node, type, names }: { node: string; type: string; names: readonly string[] }): void {
    if (node !== this.#nodeId || type !== "Cluster" || !names.includes(this.#cluster)) return;
    this.#stopping ??= this.#stop?.();
  }

  async untilStopped(): Promise<void> {
    while (this.#stopping === undefined) await pause(2);
    await this.#stopping;
  }
}

describe.skipIf(binary === undefined)("a control plane that ends while an Envoy warms a cluster", () => {
  const random = randomOf(SEED);
  const trap = new StopAtCluster();
  let mesh: ChangingMesh;

  beforeAll(async () => {
    mesh = await ChangingMesh.open(binary ?? "", randomOf(SEED + 1), (response) => trap.heard(response));
    await addFirstModels(mesh, random);
  });

  afterAll(() => mesh?.close());

  it.each([
    ["delta", "gateway-1"],
    ["state of the world", "shop-1"],
  ] as const)(
    "costs no call, and its successor warms it (%s)",
    async (_, nodeId) => {
      const envoy = nodeId === "gateway-1" ? mesh.gateway : mesh.shop;
      let met = 0;
      for (let tries = 0; met < RESTARTS; tries += 1) {
        expect(tries, "restarts that met no warming cluster").toBeLessThan(TRIES_MAX);
        const model = mesh.models.get([...mesh.shopModels][random(mesh.shopModels.size)] ?? "");
        if (model === undefined) throw new Error("both Envoys know no model");
        const version = model.newest + 1;
        trap.arm(nodeId, clusterName(`${model.name}:${version}`), () => mesh.stopControlPlane());
        // The answer to the write is lost when the control plane ends before it.
        await mesh.addVersion(model).catch(() => undefined);
        await trap.untilStopped();
        const isWarming = (await envoy.stat("cluster_manager.warming_clusters")) > 0;
        if (isWarming) met += 1;
        await pause(random(200));
        await mesh.startControlPlane();
        await mesh.untilConnected();
        await mesh.settle();
        expect(await envoy.stat("cluster_manager.warming_clusters")).toBe(0);
        await release(mesh, model, version);
        expect(mesh.failures).toEqual([]);
      }
      console.info(
        `${RESTARTS} restarts met a warming cluster: ${mesh.atGateway.answered + mesh.atShop.answered} calls, 0 failed`,
      );
    },
    TEST_MS,
  );
});

/** The version takes all calls of its model; the others go. */
async function release(mesh: ChangingMesh, model: LiveModel, version: number): Promise<void> {
  await mesh.addBatcher(model, version);
  await mesh.promote(model, version);
  await mesh.setAlias(model, { ...model.alias, weights: new Map([[version, 1]]) });
  await mesh.settle();
  for (const old of [...model.ready.keys()]) if (old !== version) await mesh.archive(model, old);
  await mesh.settle();
}
