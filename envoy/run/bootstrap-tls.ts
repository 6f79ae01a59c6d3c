import { identityUri } from "@servemesh/proto/identity";

/** Absolute paths on the Envoy's machine, all PEM. */
export interface IdentityFiles {
  /** Certificate of this Envoy, followed by those of intermediate issuers. */
  readonly certificate: string;
  readonly privateKey: string;
  /** Issuers of the control plane's certificate. */
  readonly authorities: string;
}

const TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3";
const IDENTITY = "own-identity";
const AUTHORITIES = "control-plane-authorities";

/**
 * The contents of an Envoy's secrets file: where its identity for the control plane lies, and whom it takes for one. It is a
 * file of its own because Envoy reads certificates named in a bootstrap once, but follows those that a secrets file names:
 * replace them by moving new files in their place.
 */
export function meshSecrets({ certificate, privateKey, authorities }: IdentityFiles, trustDomain: string): object {
  const controlPlane = identityUri({ trustDomain, kind: "control-plane", name: "" });
  return {
    resources: [
      {
        "@type": `${TLS}.Secret`,
        name: IDENTITY,
        tls_certificate: { certificate_chain: { filename: certificate }, private_key: { filename: privateKey } },
      },
      {
        "@type": `${TLS}.Secret`,
        name: AUTHORITIES,
        validation_context: {
          trusted_ca: { filename: authorities },
          match_typed_subject_alt_names: [{ san_type: "URI", matcher: { exact: controlPlane } }],
        },
      },
    ],
  };
}

/** Mutual TLS of the cluster of the control plane. @param secretsFile absolute path of a file with `meshSecrets` */
export function controlPlaneTls(secretsFile: string): object {
  const secret = (name: string): object => ({
    name,
    sds_config: { path_config_source: { path: secretsFile }, resource_api_version: "V3" },
  });
  return {
    name: "envoy.transport_sockets.tls",
    typed_config: {
      "@type": `${TLS}.UpstreamTlsContext`,
      common_tls_context: {
        tls_params: { tls_minimum_protocol_version: "TLSv1_2" },
        alpn_protocols: ["h2"],
        tls_certificate_sds_secret_configs: [secret(IDENTITY)],
        validation_context_sds_secret_config: secret(AUTHORITIES),
      },
    },
  };
}
