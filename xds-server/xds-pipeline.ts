import type { GateTools } from "./gate-compiler.js";
import { GroupPipeline, notPublished } from "./group-pipeline.js";
import type { GatewayPlan, MeshPlan } from "./plan/mesh-plan.js";
import { reachFindings } from "./plan/mesh-reach.js";
import { planMesh } from "./plan/plan.js";
import type { Finding, RegistryState } from "./registry/state.js";
import type { ProvidedSecrets, SecretSource } from "./secrets/secret-files.js";
import { SharedTranslations } from "./shared-translations.js";
import type { SharedTranslation } from "./translate/translate.js";
import type { GroupState } from "./xds/group-deliveries.js";
import { XdsServer, type XdsServerDeps } from "./xds/xds-server.js";

export interface XdsPipelineDeps extends XdsServerDeps {
  readonly gate: GateTools;
  /** FileDescriptorSet of `servemesh.rest.v1.RestService` for Envoy's transcoder. */
  readonly transcoderDescriptor: Uint8Array;
  /** Certificates of gateways. Without it there are none, and no TLS listener opens. */
  readonly secrets?: SecretSource;
}

const NO_SECRETS: ProvidedSecrets = { pairs: new Map(), identities: new Map(), findings: [] };

export interface XdsPipelineSettings {
  /** Path of a JSON-lines access log on the gateway's machine. */
  readonly accessLogPath?: string;
}

export interface XdsPipeline {
  /**
   * Publishes a registry state. Call it once the first full read is done, and after each change. Whatever fails, what was
   * published before stays; the findings say what and why.
   */
  apply(state: RegistryState, settings: XdsPipelineSettings): readonly Finding[];
  /** Serves the published state; `server.findings()` has what Envoys refuse of it. */
  readonly server: XdsServer;
  /** The plan in force; undefined before the first. */
  plan(): MeshPlan | undefined;
}

/**
 * Wires registry state → plan → translate → snapshot → xds. Each stage gets what it made last and repeats only what changed
 * since, so a change costs the same in a mesh of 10 and of 5,000 models.
 */
export function createXdsPipeline(deps: XdsPipelineDeps): XdsPipeline {
  const server = new XdsServer(deps);
  const pipelines = new Map<string, GroupPipeline>();
  const translations = new SharedTranslations();
  let published: readonly GroupState[] | undefined;

  const pipelineOf = (name: string): GroupPipeline => {
    const known = pipelines.get(name) ?? new GroupPipeline(deps.gate);
    pipelines.set(name, known);
    return known;
  };

  const publish = ({ gateways }: MeshPlan): void => {
    for (const name of pipelines.keys()) if (!gateways.some((gateway) => gateway.name === name)) pipelines.delete(name);
    const states = gateways.flatMap((group) => {
      const snapshot = pipelines.get(group.name)?.snapshot;
      return snapshot === undefined ? [] : [{ group, snapshot }];
    });
    const isSame = published !== undefined && areSame(states, published);
    published = states;
    if (!isSame) server.publish(states);
  };

  const apply = (state: RegistryState, settings: XdsPipelineSettings): readonly Finding[] => {
    try {
      const plan = planMesh(state, translations.plan);
      const secrets = deps.secrets?.provide(plan.gateways) ?? NO_SECRETS;
      const { transcoderDescriptor } = deps;
      const domainOf = ({ name }: GatewayPlan): string | undefined => secrets.identities.get(name)?.trustDomain;
      const made = translations.make(plan, plan.gateways.map(domainOf));
      const findings = plan.gateways.flatMap((gateway) =>
        pipelineOf(gateway.name).apply(made.get(domainOf(gateway)) as SharedTranslation, gateway, {
          ...settings,
          transcoderDescriptor,
          secrets: secrets.pairs,
          identities: secrets.identities,
        }),
      );
      translations.keep(plan, made);
      publish(plan);
      const unreached = reachFindings(plan, (name) => secrets.identities.has(name));
      return [...plan.findings, ...secrets.findings, ...unreached, ...withoutRepeats(findings)];
    } catch (error) {
      // A mistake of ours must not take the mesh down with it.
      const problem = error instanceof Error ? error.message : String(error);
      deps.logger.warn({ problem }, "the registry state could not be translated");
      return [...state.findings, notPublished(problem)];
    }
  };

  return { apply, server, plan: () => translations.plan };
}

function areSame(a: readonly GroupState[], b: readonly GroupState[]): boolean {
  return (
    a.length === b.length &&
    a.every(({ group, snapshot }, index) => group === b[index]?.group && snapshot === b[index]?.snapshot)
  );
}

/** Groups with the same gate have the same findings about it. */
function withoutRepeats(findings: readonly Finding[]): Finding[] {
  return [...new Map(findings.map((finding) => [JSON.stringify(finding), finding])).values()];
}
