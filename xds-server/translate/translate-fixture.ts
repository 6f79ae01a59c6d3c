import type { MeshPlan } from "../plan/mesh-plan.js";
import {
  type GroupTranslation,
  type MeshResources,
  type SharedTranslation,
  type TranslateSettings,
  translateGroup,
  translateShared,
} from "./translate.js";

/** A translation of a mesh whose Envoys are one group, with all that it was made from. */
export interface Translation {
  readonly plan: MeshPlan;
  readonly trustDomain?: string | undefined;
  readonly settings: TranslateSettings;
  readonly resources: MeshResources;
}

/** What the Envoys of the plan's first group are told, as the pipeline would. */
export function translate(plan: MeshPlan, settings: TranslateSettings, previous?: Translation): MeshResources {
  const [gateway] = plan.gateways;
  const trustDomain = settings.identities?.get(gateway?.name ?? "")?.trustDomain;
  const shared: SharedTranslation | undefined = previous && { trustDomain, ...previous };
  const group: GroupTranslation | undefined = previous && { ...previous, gateway: previous.plan.gateways[0] };
  return { ...translateShared(plan, trustDomain, shared), ...translateGroup(gateway, settings, group) };
}
