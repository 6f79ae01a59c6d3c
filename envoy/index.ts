export { findEnvoy, findTriton, pythonCommand, type TritonInstallation } from "./run/binaries.js";
export type { IdentityFiles } from "./run/bootstrap-tls.js";
export type { CertificateFiles } from "./run/certificates.js";
export { ackedRoutes, waitRoutesAcked } from "./run/gateway-acks.js";
export { findPair, type JournalPair, pollJournal, primaryRecords, readJournal } from "./run/journal-reader.js";
export { type LocalMesh, type LocalMeshOptions, type ReplicaHandle, startLocalMesh } from "./run/local-mesh.js";
export {
  type AliasContents,
  DEMO_CONTENTS,
  type MeshContents,
  type ModelContents,
  TENANT,
  type VersionContents,
} from "./run/mesh-contents.js";
export type { MeshIdentities } from "./run/mesh-context.js";
export {
  findVersion,
  type ModelManifest,
  readModelManifest,
  type ServingOverrides,
  type TrainedVersion,
  versionRecord,
} from "./run/model-manifest.js";
export type { Part } from "./run/part.js";
export { repositoryRoot } from "./run/paths.js";
export { findBasePort, type PortPlan } from "./run/ports.js";
export { RunError } from "./run/run-error.js";
export { parseServerTiming } from "./run/server-timing.js";
