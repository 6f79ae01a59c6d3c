import { writeFileSync } from "node:fs";
import { join } from "node:path";
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

/** Absolute paths of the files that `writeMeshSecrets` wrote. */
export interface SecretFiles {
  readonly identity: string;
  readonly authorities: string;
}

/**
 * Writes the secrets files of an Envoy: where its identity for the control plane lies, and whom it takes for one. They are
 * files of their own because Envoy reads certificates named in a bootstrap once, but follows those that a secrets file
 * names: replace them by moving new files in their place. One secret each: Envoy refuses a file with several.
 */
export function writeMeshSecrets(folder: string, identity: IdentityFiles, trustDomain: string): SecretFiles {
  const controlPlane = identityUri({ trustDomain, kind: "control-plane", name: "" });
  const files = { identity: join(folder, "mesh-identity.json"), authorities: join(folder, "mesh-authorities.json") };
  writeSecret(files.identity, {
    name: IDENTITY,
    tls_certificate: {
      certificate_chain: { filename: identity.certificate },
      private_key: { filename: identity.privateKey },
    },
  });
  writeSecret(files.authorities, {
    name: AUTHORITIES,
    validation_context: {
      trusted_ca: { filename: identity.authorities },
      match_typed_subject_alt_names: [{ san_type: "URI", matcher: { exact: controlPlane } }],
    },
  });
  return files;
}

function writeSecret(file: string, secret: object): void {
  writeFileSync(file, `${JSON.stringify({ resources: [{ "@type": `${TLS}.Secret`, ...secret }] }, null, 2)}\n`);
}

/** Mutual TLS of the cluster of the control plane. */
export function controlPlaneTls(files: SecretFiles): object {
  const secret = (name: string, path: string): object => ({
    name,
    sds_config: { path_config_source: { path }, resource_api_version: "V3" },
  });
  return {
    name: "envoy.transport_sockets.tls",
    typed_config: {
      "@type": `${TLS}.UpstreamTlsContext`,
      common_tls_context: {
        tls_params: { tls_minimum_protocol_version: "TLSv1_2" },
        alpn_protocols: ["h2"],
        tls_certificate_sds_secret_configs: [secret(IDENTITY, files.identity)],
        validation_context_sds_secret_config: secret(AUTHORITIES, files.authorities),
      },
    },
  };
}
