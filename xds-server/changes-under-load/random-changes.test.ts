import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { envoyBinary } from "../xds/envoy-fixture.js";
import { pause } from "../xds/mesh-fixture.js";
import { ChangingMesh } from "./changing-mesh-fixture.js";
import { HostileClients } from "./hostile-clients-fixture.js";
import { addFirstModels, moveAtRandom, openAll } from "./random-moves-fixture.js";
import { randomOf } from "./seeded-random-fixture.js";

/** The same changes in every run; change it, and raise the count, to search further. */
const SEED = 20_261_207;
const CHANGES = 500;
const TEST_MS = 400_000;

const binary = envoyBinary();
if (binary === undefined) console.info("skipped: no Envoy; run `npm run setup` or set ENVOY_BIN");

describe.skipIf(binary === undefined)(`${CHANGES} random changes of the registry, from seed ${SEED}`, () => {
  const random = randomOf(SEED);
  let mesh: ChangingMesh;
  let hostile: HostileClients;

  beforeAll(async () => {
    mesh = await ChangingMesh.open(binary ?? "", randomOf(SEED + 1));
    hostile = new HostileClients(mesh.adsAddress, randomOf(SEED + 2));
    await addFirstModels(mesh, random);
  });

  afterAll(async () => {
    hostile?.close();
    await mesh?.close();
  });

  it(
    "fail no call at two Envoys of different groups, with hostile clients beside them",
    async () => {
      const moves: string[] = [];
      for (let change = 0; change < CHANGES; change += 1) {
        const move = await moveAtRandom(mesh, random);
        moves.push(`${Math.round(performance.now())} ms: ${move}`);
        if (random(3) === 0) {
          await mesh.settle();
          moves.push(`${Math.round(performance.now())} ms: settled`);
          openAll(mesh);
        } else {
          await pause(random(15));
        }
        expect(mesh.failures, moves.slice(-12).join("\n")).toEqual([]);
      }
      await mesh.settle();
      expect(mesh.failures, moves.slice(-12).join("\n")).toEqual([]);
      const { atGateway, atShop } = mesh;
      expect(atGateway.answered).toBeGreaterThan(CHANGES);
      expect(atShop.answered).toBeGreaterThan(CHANGES);
      console.info(
        `${CHANGES} changes: ${atGateway.answered} calls at the gateway and ${atShop.answered} at the sidecar answered, 0 failed; ${hostile.nonsenseCount} streams of nonsense`,
      );
    },
    TEST_MS,
  );
});
