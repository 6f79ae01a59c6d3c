import { compileGateConfig, dryRunGate, type GateConfig } from "@servemesh/wasm-filters";
import type { Finding } from "./registry/state.js";
import { contentHash } from "./snapshot/resource.js";

/** The gate filter as the control plane handles it. */
export interface GateTools {
  /** Wasm code of the filter. */
  readonly module: Uint8Array;
  /** @throws Error that names the field and its problem when the configuration cannot be written */
  compile(gate: GateConfig): Uint8Array;
  /** Loads the module with a configuration, as Envoy would; gives the problem, or undefined when it starts. */
  dryRun(config: Uint8Array): string | undefined;
}

/** The tools that go with a module of ours: our compiler, and a trial in our own host. */
export function gateToolsOf(module: Uint8Array): GateTools {
  return {
    module,
    compile: compileGateConfig,
    dryRun: (config) => {
      const result = dryRunGate(module, config);
      return result.ok ? undefined : result.problem;
    },
  };
}

/** What may be published of the gate. */
export interface CompiledGate {
  /** Undefined when no configuration ever worked: then a closed gate stands in its place. */
  readonly config: Uint8Array | undefined;
  readonly findings: readonly Finding[];
}

/** Compiles the gate's configuration, tries it on the module, and keeps the last one that worked. */
export class GateCompiler {
  readonly #tools: GateTools;
  #lastGood: Uint8Array | undefined;
  #tried = { digest: "", problem: "" };
  #latest: { readonly gate: GateConfig; readonly compiled: CompiledGate } | undefined;

  constructor(tools: GateTools) {
    this.#tools = tools;
  }

  /**
   * A model or tenant that cannot be written is left out with a finding, so that it never blocks the others. The same
   * configuration object as the last time has the same result: plans keep it while nothing in it changes.
   */
  compile(gate: GateConfig): CompiledGate {
    if (this.#latest?.gate !== gate) this.#latest = { gate, compiled: this.#compile(gate) };
    return this.#latest.compiled;
  }

  #compile(gate: GateConfig): CompiledGate {
    const whole = this.#try(gate);
    if (whole === undefined) return { config: this.#lastGood, findings: [] };
    const { sound, findings } = this.#withoutUnsound(gate);
    const rest = findings.length === 0 ? whole : this.#try(sound);
    if (rest === undefined) return { config: this.#lastGood, findings };
    const message = `the gate's configuration was not published: ${rest}; gateways keep the one before, so new models, tenants and revoked keys are not in force`;
    return { config: this.#lastGood, findings: [...findings, { severity: "error", subject: "gate", message }] };
  }

  /** The problem, or undefined when the configuration works and is the last good one now. */
  #try(gate: GateConfig): string | undefined {
    try {
      const config = this.#tools.compile(gate);
      const digest = contentHash(config);
      if (digest !== this.#tried.digest) this.#tried = { digest, problem: this.#tools.dryRun(config) ?? "" };
      if (this.#tried.problem !== "") return this.#tried.problem;
      // Equal bytes stay the same object, so that what was made of them can be kept.
      if (this.#lastGood === undefined || Buffer.compare(this.#lastGood, config) !== 0) this.#lastGood = config;
      return undefined;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  #withoutUnsound(gate: GateConfig): { sound: GateConfig; findings: Finding[] } {
    const findings: Finding[] = [];
    const isSound = (subject: string, alone: GateConfig): boolean => {
      const problem = this.#problemOf(alone);
      if (problem === undefined) return true;
      const message = `is unknown to the gate, which refuses its calls: ${problem}`;
      findings.push({ severity: "error", subject, message });
      return false;
    };
    const models = gate.models.filter((model) => isSound(model.name, { models: [model], tenants: [] }));
    const tenants = gate.tenants.filter((tenant) =>
      isSound(`tenants/${tenant.name}`, { models: [], tenants: [tenant] }),
    );
    return { sound: { models, tenants }, findings };
  }

  #problemOf(alone: GateConfig): string | undefined {
    try {
      this.#tools.compile(alone);
      return undefined;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }
}
