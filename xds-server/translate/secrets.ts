import { Secret } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/secret.js";
import type { GatewayPlan } from "../plan/mesh-plan.js";
import type { MeshIdentityInForce } from "../secrets/mesh-identity.js";
import type { SecretPair } from "../secrets/secret-pair.js";
import { certificateName, MESH_AUTHORITIES, MESH_IDENTITY } from "./names.js";

/** What the files of all gateways hold, by name of the gateway. */
export interface SecretsInForce {
  readonly secrets?: ReadonlyMap<string, SecretPair>;
  readonly identities?: ReadonlyMap<string, MeshIdentityInForce>;
}

/**
 * The secrets of a group for SDS: the certificate of its TLS listener, and its identity in the mesh with the issuers of
 * batchers' certificates. A rotation reaches new connections without a change of the listener or the clusters, which would
 * close the old ones.
 */
export function translateSecrets(
  gateway: Pick<GatewayPlan, "name" | "tls"> | undefined,
  { secrets, identities }: SecretsInForce,
): Secret[] {
  if (gateway === undefined) return [];
  const pair = gateway.tls === undefined ? undefined : secrets?.get(gateway.name);
  const identity = identities?.get(gateway.name);
  return [
    ...(pair === undefined ? [] : [certificate(certificateName(gateway.name), pair)]),
    ...(identity === undefined ? [] : [certificate(MESH_IDENTITY, identity.pair), authorities(identity)]),
  ];
}

function certificate(name: string, pair: SecretPair): Secret {
  const value = { certificateChain: inlineBytes(pair.certificateChain), privateKey: inlineBytes(pair.privateKey()) };
  return Secret.fromPartial({ name, type: { $case: "tlsCertificate", value } });
}

function authorities({ authorities: pem }: MeshIdentityInForce): Secret {
  return Secret.fromPartial({
    name: MESH_AUTHORITIES,
    type: { $case: "validationContext", value: { trustedCa: inlineBytes(pem) } },
  });
}

function inlineBytes(pem: string) {
  return { specifier: { $case: "inlineBytes" as const, value: Buffer.from(pem) } };
}
