import type { Node } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/base.js";

/** What an Envoy says about itself in its first request. */
export interface NodeIdentity {
  readonly id: string;
  /** The cluster of its node: `gateway` or `sidecar`. */
  readonly role: string;
  readonly labels: ReadonlyMap<string, string>;
  /** The only group that its certificate is good for; undefined when its labels decide. */
  readonly group?: string;
  /** Whether it knows of resources with a limit of time; absent means that it does not. */
  readonly limits?: "delta" | "both";
}

/** Labels of one node that are read. */
const LABELS_MAX = 64;

/** Labels are the text fields of `labels` in the node's metadata; whatever else is there is passed over. */
export function identityOf({ id, cluster, metadata, clientFeatures }: Node): NodeIdentity {
  const { labels: given }: Record<string, unknown> = metadata ?? {};
  const entries = typeof given === "object" && given !== null ? Object.entries(given) : [];
  const texts = entries.filter((entry): entry is [string, string] => typeof entry[1] === "string");
  return { id, role: cluster, labels: new Map(texts.slice(0, LABELS_MAX)), ...limitsOf(clientFeatures) };
}

const TTL_FEATURE = "xds.config.supports-resource-ttl";
const WRAPPER_FEATURE = "xds.config.resource-in-sotw";

/** By Envoy's list of client features; in state of the world a limit comes in a wrapper that a client has to know too. */
function limitsOf(features: readonly string[]): Pick<NodeIdentity, "limits"> {
  if (!features.includes(TTL_FEATURE)) return {};
  return { limits: features.includes(WRAPPER_FEATURE) ? "both" : "delta" };
}

/** A group of Envoys that are told the same. */
export interface NodeGroup {
  readonly name: string;
  readonly role: string;
  /** Labels that a member carries, all of them. */
  readonly labels: readonly (readonly [key: string, value: string])[];
}

/** The group of an Envoy: of those that fit the one with most labels, then the first by name; undefined when none fits. */
export function groupOf(node: NodeIdentity, groups: readonly NodeGroup[]): string | undefined {
  let best: NodeGroup | undefined;
  for (const group of groups) {
    if (node.group !== undefined && group.name !== node.group) continue;
    const isMember = group.role === node.role && group.labels.every(([key, value]) => node.labels.get(key) === value);
    if (isMember && (best === undefined || isBetter(group, best))) best = group;
  }
  return best?.name;
}

function isBetter(a: NodeGroup, b: NodeGroup): boolean {
  return a.labels.length === b.labels.length ? a.name < b.name : a.labels.length > b.labels.length;
}
