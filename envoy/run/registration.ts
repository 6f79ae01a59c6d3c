import { Stage } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { AdminClient } from "@servemesh/xds-server";
import type { CertificateFiles } from "./certificates.js";
import { type MeshContents, TENANT, type VersionContents } from "./mesh-contents.js";
import type { MeshContext } from "./mesh-context.js";
import { findVersion, type ModelManifest, versionRecord } from "./model-manifest.js";

/** The stages on the way to each one, in the order in which they must be taken. */
const STEPS: Record<VersionContents["stage"], readonly Stage[]> = {
  registered: [],
  staging: [Stage.STAGE_STAGING],
  production: [Stage.STAGE_STAGING, Stage.STAGE_PRODUCTION],
};

const CREATE = 0n;

/**
 * Fills an empty registry by the same calls that an operator would make.
 * @returns the tenant's API key
 */
export async function registerContents(
  admin: AdminClient,
  contents: MeshContents,
  manifest: ModelManifest,
): Promise<string> {
  const { apiKey } = await admin.createTenant({ tenant: { name: TENANT, models: ["*"] } });
  for (const { name, deadlineMs, stickyHeader, allowedTenants } of contents.models) {
    await admin.putModel({
      model: {
        name,
        owner: "demo",
        slo: { deadlineMs, availability: 0.999 },
        allowedTenants: [...(allowedTenants ?? ["*"])],
        stickyHeader: stickyHeader ?? "",
      },
      expectedRevision: CREATE,
    });
  }
  for (const contentsOfVersion of contents.versions) await registerVersion(admin, contentsOfVersion, manifest);
  for (const alias of contents.aliases) await admin.setAlias({ alias, expectedRevision: CREATE });
  return apiKey;
}

async function registerVersion(
  admin: AdminClient,
  { reference, stage, serving }: VersionContents,
  manifest: ModelManifest,
): Promise<void> {
  const version = versionRecord(findVersion(manifest, reference), serving);
  await admin.registerVersion({ version });
  for (const step of STEPS[stage]) {
    await admin.moveStage({ model: version.model, version: version.version, stage: step, reason: "local mesh" });
  }
}

/** Registers the listeners: HTTP and TLS on loopback. */
export async function registerGateway(
  admin: AdminClient,
  { ports, identities }: MeshContext,
  certificates: CertificateFiles,
  maxRequestBytes: number | undefined,
): Promise<void> {
  await admin.putGateway({
    gateway: {
      name: "default",
      httpAddress: "127.0.0.1",
      httpPort: ports.http,
      tlsPort: ports.https,
      tlsCertificateFile: certificates.serverCertificate,
      tlsPrivateKeyFile: certificates.serverKey,
      maxRequestBytes: BigInt(maxRequestBytes ?? 0),
      ...(identities !== undefined && {
        meshCertificateFile: identities.gateway.certificate,
        meshPrivateKeyFile: identities.gateway.privateKey,
        meshCaFile: identities.gateway.authorities,
      }),
    },
  });
}
