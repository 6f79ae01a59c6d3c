import { loadGateModule } from "@servemesh/wasm-filters";
import { describe, expect, it } from "vitest";
import { type GateTools, gateToolsOf } from "./gate-compiler.js";
import { rankerFixture, stateOf, withWeights } from "./plan/state-fixture.js";
import { systemClock } from "./platform/clock.js";
import type { Finding, RegistryState } from "./registry/state.js";
import { EXTENSION_TYPE, ROUTE_TYPE } from "./snapshot/resource-types.js";
import { createXdsPipeline, type XdsPipeline } from "./xds-pipeline.js";

const ranker = rankerFixture();
const [prod, ...otherAliases] = ranker.aliases ?? [];
const moved = { ...ranker, aliases: [{ ...prod, split: [{ version: 41n, weight: 1 }] }, ...otherAliases] };
const oneMore = { ...moved, models: [...(ranker.models ?? []), { name: "echo" }] };

function pipelineWith(gate: Partial<GateTools> = {}): XdsPipeline & { dryRuns: () => number } {
  let dryRuns = 0;
  const tools: GateTools = {
    module: Buffer.from("\0asm"),
    compile: (plan) => Buffer.from(plan.models.map(({ name }) => name).join()),
    dryRun: () => {
      dryRuns += 1;
      return undefined;
    },
    ...gate,
  };
  const pipeline = createXdsPipeline({
    clock: systemClock,
    logger: { info: () => undefined, warn: () => undefined },
    gate: tools,
    transcoderDescriptor: Buffer.from("descriptors"),
  });
  return { ...pipeline, dryRuns: () => dryRuns };
}

function versionsOf(pipeline: XdsPipeline): { gate: string | undefined; routes: string | undefined } {
  const byType = pipeline.server.snapshot?.byType;
  return {
    gate: byType?.[EXTENSION_TYPE].get("gate")?.version,
    routes: byType?.[ROUTE_TYPE].get("routes/ranker")?.version,
  };
}

describe("createXdsPipeline", () => {
  it("publishes a state and gives its findings", () => {
    const pipeline = pipelineWith();
    expect(pipeline.server.snapshot).toBeUndefined();
    expect(pipeline.apply(stateOf(ranker), {}).map(({ message }) => message)).toEqual([
      "signatures are not checked yet",
    ]);
    expect(pipeline.plan()?.models).toHaveLength(2);
    expect(versionsOf(pipeline).gate).toBeDefined();
  });

  it("tries a gate configuration only when it changed", () => {
    const pipeline = pipelineWith();
    pipeline.apply(stateOf(ranker), {});
    pipeline.apply(stateOf(moved), {});
    expect(pipeline.dryRuns()).toBe(1);
    pipeline.apply(stateOf(oneMore), {});
    expect(pipeline.dryRuns()).toBe(2);
  });

  it("compiles the gate only when something that it knows of changed", () => {
    let compiled = 0;
    const pipeline = pipelineWith({
      compile: ({ models }) => {
        compiled += 1;
        return Buffer.from(models.map(({ name }) => name).join());
      },
    });
    pipeline.apply(stateOf(ranker), {});
    pipeline.apply(stateOf(withWeights(ranker, 90, 10)), {});
    pipeline.apply(stateOf({ ...ranker, ready: {} }), {});
    expect(compiled).toBe(1);
    pipeline.apply(stateOf({ ...ranker, aliases: otherAliases }), {});
    expect(compiled).toBe(2);
  });

  it("publishes nothing when a state comes to what is published", () => {
    const pipeline = pipelineWith();
    pipeline.apply(stateOf(ranker), {});
    const { snapshot } = pipeline.server;
    const plan = pipeline.plan();
    expect(pipeline.apply({ ...stateOf(ranker), revision: 9n }, {})).toHaveLength(1);
    expect(pipeline.server.snapshot).toBe(snapshot);
    expect(pipeline.plan()).toBe(plan);
  });

  it("keeps the last good gate when the next one does not start, and publishes the rest", () => {
    const pipeline = pipelineWith({
      dryRun: (config) => (Buffer.from(config).includes("echo") ? "it traps at line 7" : undefined),
    });
    pipeline.apply(stateOf(ranker), {});
    const before = versionsOf(pipeline);
    const findings = pipeline.apply(stateOf(oneMore), {});
    expect(findings.find(({ subject }) => subject === "gate")?.message).toContain("it traps at line 7");
    expect(versionsOf(pipeline).gate).toBe(before.gate);
    expect(versionsOf(pipeline).routes).not.toBe(before.routes);
  });

  it("leaves out of the gate what cannot be written, and keeps the rest", () => {
    const pipeline = pipelineWith({
      compile: ({ models }) => {
        if (models.some(({ name }) => name === "echo"))
          throw new Error("models[0] (echo).stickyHeader is no header name");
        return Buffer.from(models.map(({ name }) => name).join());
      },
    });
    pipeline.apply(stateOf(ranker), {});
    const before = versionsOf(pipeline);
    const findings = pipeline.apply(stateOf(oneMore), {}).filter(({ severity }) => severity === "error");
    expect(findings).toEqual([
      { severity: "error", subject: "echo", message: expect.stringContaining("stickyHeader") },
    ]);
    expect(versionsOf(pipeline).gate).toBe(before.gate);
  });

  it("keeps the gate closed when none ever worked", () => {
    const pipeline = pipelineWith({
      compile: () => {
        throw new Error("models: more than 4096");
      },
    });
    const findings = pipeline.apply(stateOf(ranker), {});
    expect(findings.find(({ subject }) => subject === "gate")?.message).toContain("models: more than 4096");
    const closed = pipeline.server.snapshot?.byType[EXTENSION_TYPE].get("gate")?.deltaChunk.toString("latin1");
    expect(closed).toContain("http.rbac.v3.RBAC");
    expect(versionsOf(pipeline).routes).toBeDefined();
  });

  it("works with the real gate, and does not publish a module that cannot start", () => {
    const real = gateToolsOf(loadGateModule().bytes);
    const pipeline = pipelineWith(real);
    const errors = (state: RegistryState): readonly Finding[] =>
      pipeline.apply(state, {}).filter(({ severity }) => severity === "error");
    expect(errors(stateOf(ranker))).toEqual([]);
    expect(
      pipeline.server.snapshot?.byType[EXTENSION_TYPE].get("gate")?.deltaChunk.includes(Buffer.from(real.module)),
    ).toBe(true);
    const broken = gateToolsOf(Buffer.from("no module"));
    const closed = pipelineWith(broken);
    const [finding] = closed.apply(stateOf(ranker), {}).filter(({ severity }) => severity === "error");
    expect(finding).toMatchObject({ subject: "gate", message: expect.stringContaining("was not published") });
    expect(closed.server.snapshot?.byType[EXTENSION_TYPE].get("gate")?.deltaChunk.includes("no module")).toBe(false);
  });

  it("keeps everything when a state makes it fail", () => {
    const pipeline = pipelineWith();
    pipeline.apply(stateOf(ranker), {});
    const { snapshot } = pipeline.server;
    const broken = { ...stateOf(moved), replicas: undefined as never };
    expect(pipeline.apply(broken, {}).at(-1)?.message).toContain("gateways keep the state before");
    expect(pipeline.server.snapshot).toBe(snapshot);
  });
});
