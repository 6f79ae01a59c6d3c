/**
 * Identity of one part of the mesh (DESIGN §9), as the one URI of its certificate:
 *
 *     spiffe://<trust domain>/control-plane
 *     spiffe://<trust domain>/gateway/<node id>
 *     spiffe://<trust domain>/sidecar/<node id>
 *     spiffe://<trust domain>/group/<name of a gateway record>
 *     spiffe://<trust domain>/batcher/<model>
 *
 * The form is that of SPIFFE ids (SPIFFE-ID §2), so that any issuer of those can be used.
 */
export interface MeshIdentity {
  readonly trustDomain: string;
  readonly kind: IdentityKind;
  /** What the identity is bound to; empty for a control plane. */
  readonly name: string;
}

/** A `group` identity is shared by the Envoys of one gateway record, and good for no other group. */
export type IdentityKind = "control-plane" | "gateway" | "sidecar" | "group" | "batcher";

const IDENTITY =
  /^spiffe:\/\/([a-z0-9._-]{1,255})\/(control-plane|gateway|sidecar|group|batcher)(?:\/([a-zA-Z0-9._-]{1,255}))?$/;

/** URI of an identity. */
export function identityUri({ trustDomain, kind, name }: MeshIdentity): string {
  return kind === "control-plane" ? `spiffe://${trustDomain}/${kind}` : `spiffe://${trustDomain}/${kind}/${name}`;
}

/** Reads the URI of a certificate; undefined when it is no identity of a mesh. */
export function parseIdentity(uri: string): MeshIdentity | undefined {
  const match = IDENTITY.exec(uri);
  if (match === null) return undefined;
  const [, trustDomain = "", kind = "", name = ""] = match;
  if ((kind === "control-plane") !== (name === "")) return undefined;
  return { trustDomain, kind: kind as IdentityKind, name };
}

/**
 * Reads the identities of a peer's certificate.
 * @param subjectAltName as Node gives it: `URI:spiffe://mesh/batcher/ranker, DNS:host`. A name with a quote in it is quoted by
 *   Node (CVE-2021-44532) and never read as an identity.
 */
export function identitiesOf(subjectAltName: string | undefined): MeshIdentity[] {
  if (subjectAltName === undefined || subjectAltName.includes('"')) return [];
  const uris = subjectAltName.split(", ").flatMap((entry) => (entry.startsWith("URI:") ? [entry.slice(4)] : []));
  return uris.flatMap((uri) => parseIdentity(uri) ?? []);
}
