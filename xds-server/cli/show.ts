import type {
  GetAliasResponse,
  GetModelResponse,
  GetStatusResponse,
  NodeStatus,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import {
  type Alias,
  type Replica,
  ReplicaState,
  type Tenant,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { stageWord } from "../registry/stage-words.js";
import { formatTable } from "./table.js";

/** Answers for people; `--json` is for programs. Each text ends with a line break. */
export function showTenants(tenants: readonly Tenant[]): string {
  const rows = tenants.map(({ name, models, plan, keys }) => [
    name,
    models.join(",") || "none",
    plan?.priority || "interactive",
    keys.map((key) => key.id).join(","),
  ]);
  return (
    formatTable(["TENANT", "MODELS", "PRIORITY", "KEYS"], rows) || "no tenants; add one with: meshctl tenant add NAME\n"
  );
}

export function showModels(models: readonly GetModelResponse[]): string {
  const rows = models.map(({ model, versions, aliases }) => [
    model?.name ?? "",
    model?.owner ?? "",
    String(versions.length),
    String(versions.flatMap(({ replicas }) => replicas.filter(isReady)).length),
    aliases.map((alias) => `${alias.alias}: ${splitText(alias)}`).join("; "),
  ]);
  return formatTable(["MODEL", "OWNER", "VERSIONS", "READY", "ALIASES"], rows) || "no models are registered\n";
}

export function showModel({ model, versions, aliases, revision }: GetModelResponse): string {
  const facts = [
    `${model?.name}, revision ${revision}`,
    `owner ${model?.owner || "not named"}, default alias ${model?.defaultAlias || "prod"}, deadline ${limit(model?.slo?.deadlineMs)}, tenants ${model?.allowedTenants.join(",") || "none"}`,
  ];
  const versionRows = versions.map(({ version, stage, replicas }) => [
    String(version?.version),
    stageWord(stage),
    `${replicas.filter(isReady).length} of ${replicas.length}`,
    version?.artifactDigest.slice(0, 19) || "-",
  ]);
  const sections = [
    formatTable(["VERSION", "STAGE", "READY", "ARTIFACT"], versionRows) || "no versions\n",
    formatTable(ALIAS_HEADS, aliases.map(aliasRow)) || "no aliases\n",
  ];
  const replicas = formatTable(REPLICA_HEADS, versions.flatMap((version) => version.replicas).map(replicaRow));
  return [`${facts.join("\n")}\n`, ...sections, ...(replicas === "" ? [] : [replicas])].join("\n");
}

export function showAlias({ alias, revision }: GetAliasResponse): string {
  if (alias === undefined) return "";
  return `${alias.model}@${alias.alias}, revision ${revision}\n${formatTable(ALIAS_HEADS, [aliasRow(alias)])}`;
}

export function showStatus(status: GetStatusResponse, address: string): string {
  const findings = status.findings.map(({ severity, subject, message }) => [severity, subject, message]);
  return [
    `control plane ${status.softwareVersion} at ${address}, registry revision ${status.revision}\n`,
    formatTable(
      ["ENVOY", "STATE"],
      status.nodes.map((node) => [node.nodeId, nodeState(node)]),
    ) || "no Envoy is connected\n",
    formatTable(REPLICA_HEADS, status.replicas.map(replicaRow)) || "no replicas\n",
    formatTable(["FINDING", "SUBJECT", "MESSAGE"], findings) || "no findings\n",
  ].join("\n");
}

const ALIAS_HEADS = ["ALIAS", "SPLIT", "FALLBACK", "SHADOW", "DEADLINE"];
const REPLICA_HEADS = ["REPLICA", "VERSION", "ADDRESS", "STATE", "DETAIL"];

function aliasRow(alias: Alias): string[] {
  const { fallback, shadow, deadlineMs } = alias;
  return [
    alias.alias,
    splitText(alias),
    fallback.join(",") || "-",
    shadow?.version.toString() ?? "-",
    limit(deadlineMs),
  ];
}

/** `41=95 42=5`, as `alias set` takes it but for the spaces. */
function splitText({ split }: Alias): string {
  return split.map(({ version, weight }) => `${version}=${weight ?? "?"}`).join(" ");
}

function replicaRow({ id, model, version, address, state, detail }: Replica): string[] {
  return [id, `${model}:${version}`, address, stateWord(state), detail];
}

function stateWord(state: ReplicaState): string {
  return (ReplicaState[state] ?? "UNKNOWN").replace("REPLICA_STATE_", "").toLowerCase();
}

function isReady(replica: Replica): boolean {
  return replica.state === ReplicaState.REPLICA_STATE_READY;
}

function nodeState({ types }: NodeStatus): string {
  const refused = types.filter(({ nack }) => nack !== "").map(({ nack }) => nack);
  if (refused.length > 0) return `refuses ${refused.join("; ")}`;
  const behind = types.filter(({ sentVersion, ackedVersion }) => sentVersion !== ackedVersion).length;
  return behind === 0 ? "up to date" : `${behind} of ${types.length} types under way`;
}

function limit(deadlineMs: number | undefined): string {
  return deadlineMs ? `${deadlineMs} ms` : "default";
}
