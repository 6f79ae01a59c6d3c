import type { DeepPartial, Gateway } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { describe, expect, it } from "vitest";
import { planGateways } from "./gateway-plan.js";
import type { GatewayPlan } from "./mesh-plan.js";
import { stateOf } from "./state-fixture.js";

const EDGE = { name: "edge", httpPort: 8080 };
const EU = { name: "eu", httpPort: 8081, labels: { ring: "canary", region: "eu" }, models: ["ranker", "echo"] };
const SHOP = { name: "shop", role: "sidecar", httpPort: 9000, labels: { app: "shop" }, models: ["ranker"] };

function planned(records: readonly DeepPartial<Gateway>[], previous: readonly GatewayPlan[] = []) {
  return planGateways(stateOf({ gateways: records }), previous);
}

describe("groups of Envoys", () => {
  it("are one for each gateway record, sorted, with role, labels and models", () => {
    const { gateways, findings } = planned([SHOP, EU, EDGE]);
    expect(findings).toEqual([]);
    expect(gateways.map(({ name, role, labels, models, address }) => [name, role, labels, models, address])).toEqual([
      ["edge", "gateway", [], undefined, "127.0.0.1"],
      [
        "eu",
        "gateway",
        [
          ["region", "eu"],
          ["ring", "canary"],
        ],
        ["echo", "ranker"],
        "127.0.0.1",
      ],
      ["shop", "sidecar", [["app", "shop"]], ["ranker"], "127.0.0.1"],
    ]);
  });

  it("are the same objects while their records say the same", () => {
    const { gateways } = planned([EDGE, EU]);
    expect(planned([EU, EDGE], gateways).gateways).toBe(gateways);
    const changed = planned([EDGE, { ...EU, httpPort: 8082 }], gateways).gateways;
    expect([changed[0] === gateways[0], changed[1] === gateways[1]]).toEqual([true, false]);
  });

  it("stay as they were while their record is refused, without touching another", () => {
    const { gateways } = planned([EDGE, EU]);
    const after = planned(
      [
        { ...EDGE, httpPort: 8090 },
        { ...EU, httpAddress: "gateway.local" },
      ],
      gateways,
    );
    expect(after.gateways.map(({ name, httpPort }) => [name, httpPort])).toEqual([
      ["edge", 8090],
      ["eu", 8081],
    ]);
    expect(after.findings.map(({ severity, subject }) => [severity, subject])).toEqual([["error", "gateways/eu"]]);
  });

  it("stay while their record cannot be read, and go with it", () => {
    const { gateways } = planned([EDGE, EU]);
    const unreadable = { severity: "error", subject: "gateways/eu", message: "cannot be read" } as const;
    const state = stateOf({ gateways: [EDGE], findings: [unreadable] });
    expect(planGateways(state, gateways).gateways).toBe(gateways);
    expect(planned([EDGE], gateways).gateways.map(({ name }) => name)).toEqual(["edge"]);
  });

  it("say that no port opens when there are none", () => {
    expect(planned([]).findings.map(({ severity, message }) => [severity, message])).toEqual([
      ["warning", expect.stringContaining("no gateway is registered")],
    ]);
  });
});
