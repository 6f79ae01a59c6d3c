import type { MeshPlan } from "./plan/mesh-plan.js";
import { type SharedTranslation, translateShared } from "./translate/translate.js";

/** By trust domain; undefined stands for groups without a mesh identity. */
type Translations = ReadonlyMap<string | undefined, SharedTranslation>;

/**
 * The shared resources of the plan in force, once for each way in which groups of Envoys reach batchers. Most meshes have one:
 * plain text on one machine, or one trust domain.
 */
export class SharedTranslations {
  #plan: MeshPlan | undefined;
  #kept: Translations = new Map();

  /** The plan in force; undefined before the first. */
  get plan(): MeshPlan | undefined {
    return this.#plan;
  }

  /** Translates a plan for these trust domains, and repeats only what changed since the one in force. */
  make(plan: MeshPlan, trustDomains: readonly (string | undefined)[]): Translations {
    const made = [...new Set(trustDomains)].map((trustDomain) => {
      const resources = translateShared(plan, trustDomain, this.#kept.get(trustDomain));
      return [trustDomain, { plan, trustDomain, resources }] as const;
    });
    return new Map(made);
  }

  /** A plan is in force, with its translations. */
  keep(plan: MeshPlan, translations: Translations): void {
    this.#plan = plan;
    this.#kept = translations;
  }
}
