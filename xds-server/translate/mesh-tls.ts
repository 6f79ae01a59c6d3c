import type { Cluster_TransportSocketMatch } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import {
  SubjectAltNameMatcher_SanType,
  TlsParameters_TlsProtocol,
} from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/common.js";
import { UpstreamTlsContext } from "@servemesh/proto/gen/envoy/envoy/extensions/transport_sockets/tls/v3/tls.js";
import { identityUri } from "@servemesh/proto/identity";
import { packAny } from "./any.js";
import { MESH_AUTHORITIES, MESH_IDENTITY } from "./names.js";
import { adsSource } from "./sources.js";

/** Endpoint metadata that leads to the TLS socket; Envoy looks for it under `envoy.transport_socket_match`. */
export const MTLS_MATCH = { mtls: true } as const;
/** Where Envoy looks for it. */
export const MATCH_METADATA = "envoy.transport_socket_match";

/**
 * Mutual TLS to the batchers of a cluster that speak it; the others stay on plain text, which only loopback has (DESIGN §9).
 * @param model whose batchers may answer; undefined for any batcher of the mesh
 */
export function batcherTls(trustDomain: string, model: string | undefined): Cluster_TransportSocketMatch {
  const uri = (name: string): string => identityUri({ trustDomain, kind: "batcher", name });
  const matchPattern =
    model === undefined
      ? ({ $case: "prefix", value: uri("") } as const)
      : ({ $case: "exact", value: uri(model) } as const);
  const context = UpstreamTlsContext.fromPartial({
    commonTlsContext: {
      tlsParams: { tlsMinimumProtocolVersion: TlsParameters_TlsProtocol.TLSv1_2 },
      alpnProtocols: ["h2"],
      tlsCertificateSdsSecretConfigs: [{ name: MESH_IDENTITY, sdsConfig: adsSource() }],
      validationContextType: {
        $case: "combinedValidationContext",
        value: {
          defaultValidationContext: {
            matchTypedSubjectAltNames: [{ sanType: SubjectAltNameMatcher_SanType.URI, matcher: { matchPattern } }],
          },
          validationContextSdsSecretConfig: { name: MESH_AUTHORITIES, sdsConfig: adsSource() },
        },
      },
    },
  });
  return {
    name: "mtls",
    match: MTLS_MATCH,
    transportSocket: {
      name: "envoy.transport_sockets.tls",
      configType: { $case: "typedConfig", value: packAny(UpstreamTlsContext, context) },
    },
  };
}
