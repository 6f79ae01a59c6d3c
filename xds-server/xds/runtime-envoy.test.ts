import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { planMesh } from "../plan/plan.js";
import { rankerFixture, stateOf } from "../plan/state-fixture.js";
import { buildSnapshot, type Snapshot } from "../snapshot/snapshot.js";
import { RUNTIME_LAYER } from "../translate/names.js";
import { translate } from "../translate/translate-fixture.js";
import { type AdsApiType, envoyBinary, type RunningEnvoy, startEnvoy } from "./envoy-fixture.js";
import { PATIENCE_MS, restDescriptor, TestMesh } from "./mesh-fixture.js";
import { XdsServer } from "./xds-server.js";

const binary = envoyBinary();
if (binary === undefined) console.warn("skipped: no Envoy; set ENVOY_BIN or run npm run setup");
const WAITING = { timeout: PATIENCE_MS, interval: 50 };

describe.skipIf(binary === undefined).each<AdsApiType>(["GRPC", "DELTA_GRPC"])(
  "the runtime of a real Envoy by %s",
  (apiType) => {
    let mesh: TestMesh;
    let envoy: RunningEnvoy | undefined;

    beforeEach(async () => {
      mesh = await TestMesh.open((deps) => new XdsServer(deps));
      const { ads, admin } = mesh.ports;
      const ports = { adsPort: ads, adminPort: admin };
      envoy = startEnvoy({ binary: binary ?? "", ...ports, nodeId: "edge", apiType, runtimeLayer: RUNTIME_LAYER });
    });
    afterEach(async () => {
      await envoy?.stop();
      await mesh?.close();
    });

    /** What Envoys are told when the gateway record has these settings. */
    const withRuntime = (runtime: Readonly<Record<string, string>>, runtimeTtlSeconds = 0): Snapshot => {
      const address = { httpAddress: "127.0.0.1", httpPort: mesh.ports.http };
      const gateways = [{ name: "default", ...address, runtime, runtimeTtlSeconds }];
      const plan = planMesh(stateOf({ ...rankerFixture(), gateways }));
      return buildSnapshot(translate(plan, { gate: undefined, transcoderDescriptor: restDescriptor() }));
    };

    it("has the settings of the gateway record, changed ones too, and its own again without them", async () => {
      mesh.xds.setSnapshot(withRuntime({}));
      await mesh.untilConnected();
      // A layer without settings is there, or Envoy would wait for it before it opens its ports.
      expect(await mesh.settled()).toEqual({ settled: true, unsettled: [] });
      expect(await envoy?.runtime()).toEqual({});
      mesh.xds.setSnapshot(
        withRuntime({ "upstream.healthy_panic_threshold": "12.5", "a.switch": "false", "a.text": "b" }),
      );
      await vi.waitFor(
        async () =>
          expect(await envoy?.runtime()).toEqual({
            "upstream.healthy_panic_threshold": "12.5",
            "a.switch": "false",
            "a.text": "b",
          }),
        WAITING,
      );
      mesh.xds.setSnapshot(withRuntime({ "a.switch": "true" }));
      await vi.waitFor(async () => expect(await envoy?.runtime()).toEqual({ "a.switch": "true" }), WAITING);
      mesh.xds.setSnapshot(withRuntime({}));
      await vi.waitFor(async () => expect(await envoy?.runtime()).toEqual({}), WAITING);
      expect(mesh.xds.findings()).toEqual([]);
    });

    it("rule 33: has them as long as it hears of the control plane, and again when that is back", async () => {
      const settings = { "a.switch": "true" };
      const snapshot = withRuntime(settings, 3);
      mesh.xds.setSnapshot(snapshot);
      const told = (): number => mesh.wire.filter((line) => line.startsWith("Runtime")).length;
      // One heartbeat a second: with the fifth response the limit is over by a second.
      await vi.waitFor(() => expect(told()).toBeGreaterThanOrEqual(5), WAITING);
      expect(await envoy?.runtime()).toEqual(settings);
      mesh.stopControlPlane();
      await vi.waitFor(async () => expect(await envoy?.runtime()).toEqual({}), WAITING);
      await mesh.startControlPlane();
      mesh.xds.setSnapshot(snapshot);
      await vi.waitFor(async () => expect(await envoy?.runtime()).toEqual(settings), WAITING);
      const before = told();
      await vi.waitFor(() => expect(told()).toBeGreaterThanOrEqual(before + 4), WAITING);
      expect(await envoy?.runtime()).toEqual(settings);
      expect(mesh.xds.findings()).toEqual([]);
    });
  },
);
