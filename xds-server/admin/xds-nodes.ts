import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type DumpXdsRequest,
  type DumpXdsResponse,
  type XdsNode,
  type XdsResource,
  XdsResourceState,
  type XdsType,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import { RegistryError } from "../registry/registry-error.js";
import type { ResourceInspection, ResourceState, TypeInspection } from "../xds/csds-inspection.js";
import type { ObservedNode } from "../xds/csds-node-book.js";
import { contentOf, readableContent } from "../xds/csds-redaction.js";

/** Bytes of JSON in one dump; clients take 64 MiB. */
export const DUMP_MAX_BYTES = 32 * 1024 * 1024;

/** All connected Envoys in figures. Lets others run between two nodes, because each costs a step per resource. */
export async function listXdsNodes(nodes: readonly ObservedNode[]): Promise<XdsNode[]> {
  const list: XdsNode[] = [];
  for (const node of nodes) {
    list.push(xdsNode(node, node.stream.inspect()));
    await nextTurn();
  }
  return list;
}

/**
 * Resource by resource what one Envoy has. Several streams with one node id are shown as one node, for a client may open
 * one stream per type.
 * @throws RegistryError when there is no such node, or the answer would be too large
 */
export async function dumpXds(nodes: readonly ObservedNode[], request: DumpXdsRequest): Promise<DumpXdsResponse> {
  if (request.nodeId === "") throw new RegistryError("invalid", "node_id is empty; name a connected Envoy");
  const streams = nodes.filter(({ nodeId }) => nodeId === request.nodeId);
  const dump: DumpXdsResponse = { node: undefined, resources: [] };
  let bytes = 0;
  for (const stream of streams) {
    const types = stream.stream.inspect();
    const summary = xdsNode(stream, types);
    dump.node = dump.node === undefined ? summary : { ...dump.node, types: [...dump.node.types, ...summary.types] };
    for (const resource of chosen(stream, types, request)) {
      bytes += resource.json.length;
      if (bytes > DUMP_MAX_BYTES) {
        throw new RegistryError("precondition", "the dump has more than 32 MiB; name a type_url or a name_prefix");
      }
      dump.resources.push(resource);
    }
    await nextTurn();
  }
  if (dump.node === undefined) {
    throw new RegistryError(
      "not_found",
      `node_id: no Envoy named ${request.nodeId} is connected; \`meshctl xds nodes\` lists those that are`,
    );
  }
  return dump;
}

/** What a request asks for, one by one, so that a dump that becomes too large stops early. */
function* chosen(
  node: ObservedNode,
  types: readonly TypeInspection[],
  { typeUrl, namePrefix, unacknowledgedOnly, contents }: DumpXdsRequest,
): Generator<XdsResource> {
  for (const type of types) {
    if (typeUrl !== "" && typeUrl !== type.typeUrl) continue;
    for (const resource of type.resources) {
      if (!resource.name.startsWith(namePrefix)) continue;
      if (unacknowledgedOnly && !isUnacknowledged(resource.state)) continue;
      yield xdsResource(node, type.typeUrl, resource, contents);
    }
  }
}

/** A name that does not exist needs no acknowledgement. */
function isUnacknowledged(state: ResourceState): boolean {
  return state !== "acked" && state !== "absent";
}

function xdsNode(node: ObservedNode, types: readonly TypeInspection[]): XdsNode {
  const versions = new Map(node.stream.status().map((status) => [status.typeUrl, status]));
  return {
    nodeId: node.nodeId,
    connectedSince: new Date(node.connectedAtMs),
    types: types.map((type) => xdsType(type, versions.get(type.typeUrl))),
    nackCount: BigInt(node.nackCount),
    nacks: node.nacks.map(({ typeUrl, names, words, atMs }) => ({
      typeUrl,
      names: [...names],
      words,
      at: new Date(atMs),
    })),
  };
}

function xdsType(
  { typeUrl, version, resources }: TypeInspection,
  versions: { readonly sentVersion: string; readonly ackedVersion: string } | undefined,
): XdsType {
  const count = (state: ResourceState): number => resources.filter((resource) => resource.state === state).length;
  return {
    typeUrl,
    version,
    sentVersion: versions?.sentVersion ?? "",
    ackedVersion: versions?.ackedVersion ?? "",
    acked: count("acked"),
    pending: count("pending"),
    underWay: count("under_way"),
    refused: count("refused"),
  };
}

function xdsResource(
  { stream, nacks }: ObservedNode,
  typeUrl: string,
  resource: ResourceInspection,
  withContents: boolean,
): XdsResource {
  const { name, state, version, ackedVersion, underWayVersion } = resource;
  const words = stream.node.rejections.find((refused) => refused.typeUrl === typeUrl && refused.name === name)?.words;
  const nack = nacks.find((one) => one.typeUrl === typeUrl && one.names.includes(name));
  // Of a refusal people want to see what was refused.
  const shown = state === "refused" ? resource.wanted : resource.resource;
  return {
    typeUrl,
    name,
    state: STATE[state],
    version,
    ackedVersion,
    underWayVersion,
    nack: words ?? "",
    nackedAt: words === undefined || nack === undefined ? undefined : new Date(nack.atMs),
    json: withContents && shown !== undefined ? JSON.stringify(readableContent(contentOf(shown)).json) : "",
  };
}

const STATE: Readonly<Record<ResourceState, XdsResourceState>> = {
  acked: XdsResourceState.XDS_RESOURCE_STATE_ACKED,
  pending: XdsResourceState.XDS_RESOURCE_STATE_PENDING,
  under_way: XdsResourceState.XDS_RESOURCE_STATE_UNDER_WAY,
  refused: XdsResourceState.XDS_RESOURCE_STATE_REFUSED,
  absent: XdsResourceState.XDS_RESOURCE_STATE_ABSENT,
};
