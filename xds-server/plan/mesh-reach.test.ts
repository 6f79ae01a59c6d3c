import { describe, expect, it } from "vitest";
import { reachFindings } from "./mesh-reach.js";
import { planMesh } from "./plan.js";
import { rankerFixture, stateOf } from "./state-fixture.js";

const ranker = rankerFixture();
const planOf = (ready: Record<string, readonly string[]>) =>
  planMesh(stateOf({ ...ranker, ready: { ...ranker.ready, ...ready } }));

describe("groups without a mesh identity", () => {
  it("are told of batchers that they cannot reach", () => {
    const tls = { "ranker:41": ["tls 10.1.0.1:19000"] };
    expect(reachFindings(planOf(tls), () => false)).toEqual([
      {
        severity: "warning",
        subject: "gateways/default",
        message:
          "replicas of ranker:41 speak TLS, which this group's Envoys cannot; set mesh_certificate_file, mesh_private_key_file and mesh_ca_file",
      },
    ]);
    const both = planOf({ ...tls, "ranker:42": ["tls 10.1.0.2:19000"] });
    expect(reachFindings(both, () => false)[0]?.message).toContain("replicas of ranker:41 and 1 more versions speak");
    expect(reachFindings(both, (name) => name === "default")).toEqual([]);
  });

  it("are fine while no batcher speaks TLS", () => {
    expect(reachFindings(planOf({}), () => false)).toEqual([]);
  });
});
