import type { Finding, RegistryState } from "../registry/state.js";

/**
 * Whether a record that is absent from the state is not gone but unreadable: then what was known of it before stays in
 * force. A record that does not validate leaves the state and leaves an error finding about itself.
 * @param key registry key without its prefix, such as `aliases/ranker/prod`
 * @param reference the same record in people's words, such as `ranker@prod`
 */
export function isUnreadable(state: RegistryState, key: string, reference: string): boolean {
  return state.findings.some((finding) => finding.severity === "error" && isAbout(finding, key, reference));
}

function isAbout(finding: Finding, key: string, reference: string): boolean {
  return finding.subject === reference || finding.subject === key || finding.subject.endsWith(`/${key}`);
}
