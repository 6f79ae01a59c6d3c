import type { NodeMatcher } from "@servemesh/proto/gen/envoy/envoy/type/matcher/v3/node.js";
import type { StringMatcher } from "@servemesh/proto/gen/envoy/envoy/type/matcher/v3/string.js";

/**
 * Whether a request's `node_matchers` mean a node; without any, all nodes are meant.
 * @throws Error when a matcher is of a kind that is not offered
 */
export function matchesNode(matchers: readonly NodeMatcher[], nodeId: string): boolean {
  // All are looked at, so that a bad one is told whatever the others say.
  const results = matchers.map((matcher) => matchesOne(matcher, nodeId));
  return results.length === 0 || results.includes(true);
}

function matchesOne({ nodeId: matcher, nodeMetadatas }: NodeMatcher, nodeId: string): boolean {
  if (nodeMetadatas.length > 0) {
    throw new Error("node_matchers.node_metadatas is not offered; match by node_id");
  }
  return matcher === undefined || matchesText(matcher, nodeId);
}

function matchesText({ matchPattern, ignoreCase }: StringMatcher, text: string): boolean {
  const fold = (given: string): string => (ignoreCase ? given.toLowerCase() : given);
  switch (matchPattern?.$case) {
    case "exact":
      return fold(text) === fold(matchPattern.value);
    case "prefix":
      return fold(text).startsWith(fold(matchPattern.value));
    default:
      throw new Error("node_matchers.node_id must be exact or prefix; other kinds are not offered");
  }
}
