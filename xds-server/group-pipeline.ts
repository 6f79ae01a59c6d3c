import { isDeepStrictEqual } from "node:util";
import type { GateConfig } from "@servemesh/wasm-filters";
import { GateCompiler, type GateTools } from "./gate-compiler.js";
import { gateWithin } from "./plan/gate-scope.js";
import type { GatewayPlan, MeshPlan } from "./plan/mesh-plan.js";
import type { Finding } from "./registry/state.js";
import { buildSnapshot, inconsistencies, type Snapshot } from "./snapshot/snapshot.js";
import { withinScope } from "./translate/scope.js";
import {
  type GroupTranslation,
  type SharedTranslation,
  type TranslateSettings,
  translateGroup,
} from "./translate/translate.js";

/**
 * Makes the snapshots of one group of Envoys: the shared resources within its scope, with its own listeners and gate. What
 * was published last stays in force when a newer state of the group cannot be published.
 */
export class GroupPipeline {
  readonly #tools: GateTools;
  readonly #compiler: GateCompiler;
  #scopedGate: GateConfig | undefined;
  #translation: GroupTranslation | undefined;
  #snapshot: Snapshot | undefined;

  constructor(tools: GateTools) {
    this.#tools = tools;
    this.#compiler = new GateCompiler(tools);
  }

  /** What the Envoys of the group shall hold; undefined before anything could be published. */
  get snapshot(): Snapshot | undefined {
    return this.#snapshot;
  }

  /** @returns what is wrong with the group's new state */
  apply(
    shared: SharedTranslation,
    gateway: GatewayPlan,
    settings: Omit<TranslateSettings, "gate">,
  ): readonly Finding[] {
    const compiled = this.#compiler.compile(this.#gateFor(shared.plan, gateway));
    const gate = compiled.config === undefined ? undefined : { module: this.#tools.module, config: compiled.config };
    const own = translateGroup(gateway, { ...settings, gate }, this.#translation);
    const resources =
      gateway.models === undefined ? shared.resources : withinScope(shared.resources, shared.plan, gateway.models);
    const snapshot = buildSnapshot({ ...resources, ...own }, this.#snapshot);
    const problems = inconsistencies(snapshot);
    if (problems.length > 0) return [...compiled.findings, ...problems.map(notPublished)];
    this.#translation = { gateway, settings: { ...settings, gate }, resources: own };
    this.#snapshot = snapshot;
    return compiled.findings;
  }

  /** The same object while nothing in it changed, so that it is not compiled again. */
  #gateFor({ gate }: MeshPlan, { models }: GatewayPlan): GateConfig {
    if (models === undefined) return gate;
    const scoped = gateWithin(gate, models);
    if (!isDeepStrictEqual(this.#scopedGate, scoped)) this.#scopedGate = scoped;
    return this.#scopedGate ?? scoped;
  }
}

/** A mistake of ours, which must not take a group down. */
export function notPublished(problem: string): Finding {
  return {
    severity: "error",
    subject: "mesh",
    message: `${problem}; gateways keep the state before. This is a fault of the control plane: report it with this text`,
  };
}
