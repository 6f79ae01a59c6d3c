import { Secret } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/secret.js";
import type { GatewayPlan } from "../plan/mesh-plan.js";
import type { SecretPair } from "../secrets/secret-pair.js";
import { certificateName } from "./names.js";

/**
 * The certificate of a gateway's TLS listener with its private key, for SDS: a rotation reaches new connections without a
 * change of the listener, which would close the old ones.
 */
export function translateSecrets(
  gateway: Pick<GatewayPlan, "name" | "tls"> | undefined,
  secrets: ReadonlyMap<string, SecretPair> | undefined,
): Secret[] {
  const pair = gateway?.tls === undefined ? undefined : secrets?.get(gateway.name);
  if (gateway === undefined || pair === undefined) return [];
  const tlsCertificate = {
    certificateChain: inlineBytes(pair.certificateChain),
    privateKey: inlineBytes(pair.privateKey()),
  };
  return [
    Secret.fromPartial({
      name: certificateName(gateway.name),
      type: { $case: "tlsCertificate", value: tlsCertificate },
    }),
  ];
}

function inlineBytes(pem: string) {
  return { specifier: { $case: "inlineBytes" as const, value: Buffer.from(pem) } };
}
