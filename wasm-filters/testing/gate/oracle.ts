import { isAliasName, type Pin, parseModelRef, parseVersion } from "@servemesh/proto/model-ref";
import type { GateAlias, GateConfig, GateModel } from "../../config/gate-config.js";
import { digestOf } from "./fixture.js";

/** A predict or ready call as a caller means it, whatever the door. */
export interface Ask {
  readonly key: string | undefined;
  readonly reference: string;
  readonly version: string | undefined;
  readonly label: string | undefined;
  readonly timeoutMs: number | undefined;
  readonly priority: string | undefined;
  readonly sticky: string | undefined;
}

/** The request headers that the mesh must see, or the reason of the refusal. */
export type Expected = { readonly reason: string } | { readonly headers: Readonly<Record<string, string>> };

/**
 * The gate's decisions again, written from the design and from the plain configuration instead of the blob. Slow and
 * short; the built module is compared with it on random configurations and requests.
 */
export function decide(config: GateConfig, ask: Ask): Expected {
  const key = ask.key;
  const tenant =
    key === undefined
      ? undefined
      : config.tenants.find(({ keyDigests }) =>
          keyDigests.some((digest) => Buffer.compare(digest, digestOf(key)) === 0),
        );
  if (tenant === undefined) return { reason: "unauthenticated" };
  const reference = parseModelRef(ask.reference);
  if (!reference.ok) return { reason: "bad_input" };
  const pin = pinOf(reference.pin, ask);
  if (pin === "conflict") return { reason: "bad_input" };
  const model = config.models.find(({ name }) => name === reference.model);
  if (model === undefined) return { reason: "model_not_found" };
  const target = targetOf(model, pin);
  if (target === undefined) return { reason: "model_not_found" };
  const allows = (list: readonly string[], name: string) => list.includes("*") || list.includes(name);
  if (!allows(model.allowedTenants, tenant.name) || !allows(tenant.models, model.name)) return { reason: "forbidden" };
  if (ask.timeoutMs === 0) return { reason: "deadline" };
  const budgetMs = Math.min(
    ask.timeoutMs ?? Number.POSITIVE_INFINITY,
    target.alias?.deadlineMs ?? model.deadlineMs,
    model.deadlineMs,
  );
  if (ask.priority !== undefined && ask.priority !== "batch" && ask.priority !== "interactive")
    return { reason: "bad_input" };
  const shadow = target.alias?.shadowCluster;
  return {
    headers: {
      "x-servemesh-route": `${model.name}/${target.element}`,
      "x-servemesh-tenant": tenant.name,
      "x-servemesh-priority": tenant.priority === "batch" ? "batch" : (ask.priority ?? "interactive"),
      ...(ask.sticky !== undefined &&
        model.stickyHeader === "x-predict-sticky-key" && { "x-servemesh-sticky": ask.sticky }),
      ...(shadow !== undefined && { "x-servemesh-shadow-cluster": shadow }),
      "grpc-timeout": `${budgetMs}m`,
      "x-envoy-upstream-rq-timeout-ms": String(budgetMs + 10),
    },
  };
}

function pinOf(pin: Pin | undefined, ask: Ask): Pin | undefined | "conflict" {
  let result = pin;
  if (ask.version !== undefined) {
    const version = parseVersion(ask.version);
    if (version === undefined) return "conflict";
    if (result !== undefined && (result.kind !== "version" || result.version !== version)) return "conflict";
    result = { kind: "version", version };
  }
  if (ask.label !== undefined) {
    if (!isAliasName(ask.label)) return "conflict";
    if (result !== undefined && (result.kind !== "alias" || result.alias !== ask.label)) return "conflict";
    result = { kind: "alias", alias: ask.label };
  }
  return result;
}

function targetOf(model: GateModel, pin: Pin | undefined): { element: string; alias?: GateAlias } | undefined {
  if (pin?.kind === "version") {
    return model.versions.includes(pin.version) ? { element: String(pin.version) } : undefined;
  }
  const name = pin?.alias ?? model.defaultAlias;
  const alias = model.aliases.find((candidate) => candidate.name === name);
  return alias && { element: name, alias };
}
