import type { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { HttpConnectionManager } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { planMesh } from "../plan/plan.js";
import { rankerOn, stateOf } from "../plan/state-fixture.js";
import { buildSnapshot } from "../snapshot/snapshot.js";
import { packAny } from "../translate/any.js";
import { GATE } from "../translate/names.js";
import { withOpenGate } from "../translate/open-gate-fixture.js";
import type { MeshResources } from "../translate/translate.js";
import { translate } from "../translate/translate-fixture.js";
import { callRest } from "./doors-fixture.js";
import { type AdsApiType, envoyBinary } from "./envoy-fixture.js";
import { PATIENCE_MS, restDescriptor, TestMesh } from "./mesh-fixture.js";
import { XdsServer } from "./xds-server.js";

/** A listener that leaves one filter of ECDS for another while a real Envoy serves. */
const binary = envoyBinary();
if (binary === undefined) console.info("skipped: no Envoy; run `npm run setup` or set ENVOY_BIN");

const OTHER = "other-gate";
const SWAPS = 6;
const FORMS: readonly { form: string; apiType: AdsApiType }[] = [
  { form: "delta", apiType: "DELTA_GRPC" },
  { form: "state of the world", apiType: "GRPC" },
];

/** The same mesh with the gate under another name, in the listeners and as the only resource of ECDS. */
function withGateNamed(resources: MeshResources, name: string): MeshResources {
  return {
    ...resources,
    listeners: resources.listeners.map((listener) => renameGate(listener, name)),
    extensions: resources.extensions.map((extension) => ({ ...extension, name })),
  };
}

function renameGate(listener: Listener, name: string): Listener {
  const filter = listener.filterChains[0]?.filters[0];
  if (filter?.configType?.$case !== "typedConfig") throw new Error("the listener has no connection manager");
  const manager = HttpConnectionManager.decode(filter.configType.value.value);
  const gates = manager.httpFilters.filter((httpFilter) => httpFilter.name === GATE);
  if (gates.length !== 1) throw new Error(`the listener has ${gates.length} gates`);
  for (const gate of gates) gate.name = name;
  filter.configType.value = packAny(HttpConnectionManager, manager);
  return listener;
}

describe.skipIf(binary === undefined).each(FORMS)("a filter of a listener by $form", ({ apiType }) => {
  let mesh: TestMesh;

  async function publish(gateName: string): Promise<void> {
    mesh.wire.length = 0;
    const plan = planMesh(stateOf(rankerOn(mesh.servingPorts)));
    const resources = withOpenGate(translate(plan, { gate: undefined, transcoderDescriptor: restDescriptor() }));
    mesh.xds.setSnapshot(buildSnapshot(withGateNamed(resources, gateName), mesh.xds.snapshot));
    expect(await mesh.settled()).toEqual({ settled: true, unsettled: [] });
    expect(mesh.xds.findings()).toEqual([]);
  }

  beforeAll(async () => {
    mesh = await TestMesh.open((deps) => new XdsServer(deps));
    mesh.startEnvoy(binary ?? "", apiType);
    await mesh.untilConnected();
    await publish(GATE);
    await mesh.untilOpen();
  });

  afterAll(() => mesh?.close());

  it("fault 30 (envoy#32823): is swapped for another, and no call fails", async () => {
    const call = () =>
      callRest(mesh.ports.http, { path: "/v2/models/ranker/infer", headers: { "x-test-route": "ranker/prod" } });
    const load = mesh.load(call);
    for (let swap = 1; swap <= SWAPS; swap += 1) {
      const name = swap % 2 === 1 ? OTHER : GATE;
      await publish(name);
      expect(mesh.wire.some((line) => line.startsWith("Listener: "))).toBe(true);
      // The filter that is not published any more is not taken away: a connection may still have it.
      expect(mesh.wire.filter((line) => /^TypedExtensionConfig:.* -/.test(line))).toEqual([]);
      const servedBefore = load.outcomes.length;
      await expect.poll(() => load.outcomes.length, { timeout: PATIENCE_MS }).toBeGreaterThan(servedBefore + 10);
      expect(await mesh.envoy.stat("listener_manager.total_listeners_warming")).toBe(0);
    }
    expect(new Set((await load.stop()).map(({ status }) => status))).toEqual(new Set([200]));
    expect(await mesh.envoy.stat("listener_manager.listener_modified")).toBeGreaterThanOrEqual(SWAPS);
  });
});
