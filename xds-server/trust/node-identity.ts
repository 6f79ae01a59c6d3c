import { identityUri, type MeshIdentity } from "@servemesh/proto/identity";
import type { NodeVerdict } from "../xds/node-admission.js";
import type { NodeIdentity } from "../xds/node-groups.js";

/**
 * Whether an Envoy is who it says (DESIGN §9). An identity of its own (`gateway/edge-1`) must name its role and node id. One
 * of a gateway record (`group/edge`) is good for any Envoy of that group, and never for another group, whatever labels it
 * carries. Pure.
 * @param peer identities of the connection's certificate
 */
export function judgeNode(peer: readonly MeshIdentity[], trustDomain: string, node: NodeIdentity): NodeVerdict {
  const own = peer.filter((identity) => identity.trustDomain === trustDomain);
  if (own.some(({ kind, name }) => kind === node.role && name === node.id)) return {};
  const group = own.find(({ kind }) => kind === "group");
  return group === undefined ? { refusal: refusalOf(peer, trustDomain, node) } : { group: group.name };
}

function refusalOf(peer: readonly MeshIdentity[], trustDomain: string, { id, role }: NodeIdentity): string {
  const said = peer.length === 0 ? "names no part of a mesh" : `is for ${peer.map(identityUri).join(" and ")}`;
  const wanted = `spiffe://${trustDomain}/${role === "sidecar" ? "sidecar" : "gateway"}/${id}`;
  return `node "${id}" of role "${role}" may not connect: its certificate ${said}; give it one for ${wanted}, or for the group of its gateway record`;
}
