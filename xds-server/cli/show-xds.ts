import {
  type DumpXdsResponse,
  type XdsNode,
  type XdsResource,
  XdsResourceState,
  type XdsType,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import { formatTable } from "./table.js";
import { typeWord } from "./xds-types.js";

/** Characters of a content hash that people compare. */
const HASH_SHOWN_CHARS = 12;

/** Answers about Envoys for people. Each text ends with a line break. */
export function showXdsNodes(nodes: readonly XdsNode[]): string {
  const rows = nodes.flatMap((node) =>
    node.types.map((type, index) => [
      ...(index === 0 ? [node.nodeId, time(node.connectedSince)] : ["", ""]),
      typeWord(type.typeUrl),
      typeState(type),
      hash(type.version),
      hash(type.sentVersion),
      hash(type.ackedVersion),
      String(type.acked),
      String(type.pending + type.underWay),
      String(type.refused),
      index === 0 ? String(node.nackCount) : "",
    ]),
  );
  const heads = ["ENVOY", "CONNECTED SINCE", "TYPE", "STATE", "VERSION", "SENT", "ACKED"];
  return formatTable([...heads, "HAS", "MISSING", "REFUSED", "NACKS"], rows) || "no Envoy is connected\n";
}

/** @param isFull whether each resource is followed by its content */
export function showXdsDump({ node, resources }: DumpXdsResponse, isFull: boolean): string {
  const head = `${node?.nodeId}, connected since ${time(node?.connectedSince)}, refused responses: ${node?.nackCount}\n`;
  if (resources.length === 0) return `${head}no resources match\n`;
  if (!isFull) return `${head}\n${resourceTable(resources)}`;
  return [head, ...resources.map(fullResource)].join("\n");
}

export function showXdsDiff({ node, resources }: DumpXdsResponse): string {
  if (resources.length === 0) return `${node?.nodeId} has acknowledged everything of the present state\n`;
  return `${node?.nodeId} has not acknowledged:\n${resourceTable(resources)}`;
}

export function showXdsNacks(nodes: readonly XdsNode[]): string {
  const rows = nodes.flatMap(({ nodeId, nacks }) =>
    nacks.map(({ at, typeUrl, names, words }) => [time(at), nodeId, typeWord(typeUrl), names.join(","), words]),
  );
  rows.sort(([a = ""], [b = ""]) => (a < b ? 1 : a > b ? -1 : 0));
  return (
    formatTable(["TIME", "ENVOY", "TYPE", "RESOURCES", "ENVOY SAYS"], rows) ||
    "no connected Envoy has refused anything\n"
  );
}

function resourceTable(resources: readonly XdsResource[]): string {
  return formatTable(
    ["TYPE", "RESOURCE", "STATE", "VERSION", "ACKED", "UNDER WAY", "ENVOY SAYS"],
    resources.map((resource) => [
      typeWord(resource.typeUrl),
      resource.name,
      stateWord(resource),
      hash(resource.version),
      hash(resource.ackedVersion),
      hash(resource.underWayVersion),
      refusal(resource),
    ]),
  );
}

function fullResource(resource: XdsResource): string {
  const content =
    resource.json === "" ? "only its version is known, from a stream before this one" : pretty(resource.json);
  return `${resourceTable([resource])}${content}\n`;
}

/** JSON leaves some control characters as they are; a terminal must not obey them. */
function pretty(json: string): string {
  return JSON.stringify(JSON.parse(json), undefined, 2).replace(/[\u007f-\u009f]/g, " ");
}

function refusal({ nack, nackedAt }: XdsResource): string {
  return nackedAt === undefined ? nack : `${nack} (${time(nackedAt)})`;
}

function typeState({ pending, underWay, refused }: XdsType): string {
  if (refused > 0) return "refuses";
  return pending + underWay > 0 ? "under way" : "up to date";
}

function stateWord({ state, version }: XdsResource): string {
  const word = (XdsResourceState[state] ?? "UNKNOWN")
    .replace("XDS_RESOURCE_STATE_", "")
    .toLowerCase()
    .replace("_", " ");
  const isRemoval = version === "" && state !== XdsResourceState.XDS_RESOURCE_STATE_ABSENT;
  return isRemoval ? `removal ${word}` : word;
}

function hash(version: string): string {
  return version.slice(0, HASH_SHOWN_CHARS) || "-";
}

function time(at: Date | undefined): string {
  return at?.toISOString() ?? "-";
}
