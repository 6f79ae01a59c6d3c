import type {
  GetAliasResponse,
  SetAliasRequest,
  SetAliasResponse,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import type { Alias } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { DEFAULT_ALIAS } from "@servemesh/proto/names";
import { judgeAlias } from "../plan/alias-policy.js";
import { DEFAULT_DEADLINE_MS } from "../plan/model-plan.js";
import { formatKey } from "../registry/keys.js";
import type { Registry } from "../registry/registry.js";
import { RegistryError } from "../registry/registry-error.js";
import type { Compare } from "../registry/store.js";
import { type Change, compareAndSet, expectRevision } from "./compare-and-set.js";
import { unknownModel } from "./models.js";
import { checkAliasName, checkModelName, required, textToStore } from "./request-checks.js";

/**
 * Writes an alias if its whole content is allowed by the rules that the plan applies too. The stages that allowed it are
 * compared in the same transaction, so that nothing is moved away underneath.
 */
export async function setAlias(registry: Registry, request: SetAliasRequest): Promise<SetAliasResponse> {
  const alias = required("alias", request.alias);
  checkModelName("alias.model", alias.model);
  checkAliasName("alias.alias", alias.alias);
  const key = { kind: "alias", model: alias.model, alias: alias.alias } as const;
  const storeKey = formatKey(key);
  const name = `${alias.model}@${alias.alias}`;
  const value = textToStore(key, { kind: "alias", value: alias });
  const decide = (): Change<undefined> => {
    const expected = expectRevision(registry, storeKey, request.expectedRevision, name);
    checkAgainstState(registry, alias, name);
    return {
      compares: [...expected, modelHead(registry, alias.model), ...stageHeads(registry, alias)],
      operations: [{ kind: "put", key: storeKey, value }],
      result: undefined,
    };
  };
  const { revision } = await compareAndSet(registry, decide);
  return { alias, revision };
}

/** @param alias empty means the model's default alias */
export function getAlias(registry: Registry, model: string, alias: string): GetAliasResponse {
  checkModelName("model", model);
  if (alias !== "") checkAliasName("alias", alias);
  const record = registry.state.models.get(model);
  if (record === undefined) throw unknownModel("model", model);
  const name = `${model}@${alias || record.value.defaultAlias || DEFAULT_ALIAS}`;
  const held = registry.state.aliases.get(name);
  if (held === undefined)
    throw new RegistryError("not_found", `alias: ${name} does not exist; set it first, or check the name`);
  return { alias: held.value, revision: held.modRevision };
}

function checkAgainstState({ state }: Registry, alias: Alias, name: string): void {
  const model = state.models.get(alias.model);
  if (model === undefined) throw unknownModel("alias.model", alias.model);
  const unknown = versionsOf(alias).find((reference) => !state.versions.has(reference));
  if (unknown !== undefined) {
    throw new RegistryError(
      "not_found",
      `${name}: ${unknown} is not registered; register it first, or check the number`,
    );
  }
  const deadlineMs = model.value.slo?.deadlineMs || DEFAULT_DEADLINE_MS;
  if (alias.deadlineMs > deadlineMs) {
    const message = `${name}: deadline_ms ${alias.deadlineMs} is above the model's ${deadlineMs}, and an alias may only lower it; write at most ${deadlineMs}`;
    throw new RegistryError("precondition", message);
  }
  const { errors } = judgeAlias(alias, deadlineMs, state);
  if (errors.length > 0) {
    throw new RegistryError("precondition", `${name}: ${errors.map(({ message }) => message).join("; ")}`);
  }
}

/** The model's limits were looked at. */
function modelHead(registry: Registry, model: string): Compare {
  const key = formatKey({ kind: "model", model });
  return { key, target: "mod_revision", equals: registry.modRevisionOf(key) };
}

/** A stage log only grows, so its head is still the one that was judged while the next number is free. */
function stageHeads(registry: Registry, alias: Alias): Compare[] {
  return [...new Set(versionsOf(alias))].map((reference) => {
    const at = reference.lastIndexOf(":");
    const key = formatKey({
      kind: "stage",
      model: reference.slice(0, at),
      version: BigInt(reference.slice(at + 1)),
      seq: (registry.stageHead(reference)?.seq ?? 0n) + 1n,
    });
    return { key, target: "mod_revision", equals: 0n };
  });
}

/** Every version that the alias names, as `ranker:41`; with those of weight 0. */
function versionsOf(alias: Alias): string[] {
  return [
    ...alias.split.map(({ version }) => `${alias.model}:${version}`),
    ...alias.fallback,
    ...(alias.shadow === undefined ? [] : [`${alias.model}:${alias.shadow.version}`]),
  ];
}
