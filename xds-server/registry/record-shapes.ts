import type { MessageShape, Shape } from "./json-shape.js";

/*
 * The messages of servemesh/registry/v1/registry.proto. A test compares the names with the generated code, so a field
 * that is added there and forgotten here fails the build.
 */
const text: Shape = { kind: "string" };
const texts: Shape = { kind: "list", of: text };
const int64: Shape = { kind: "int64" };
const uint64: Shape = { kind: "uint64" };
const uint32: Shape = { kind: "uint32" };
const double: Shape = { kind: "double" };
const bool: Shape = { kind: "bool" };
const bytes: Shape = { kind: "bytes" };
const timestamp: Shape = { kind: "timestamp" };

const message = (fields: Record<string, Shape>): MessageShape => ({ kind: "message", fields });
const listOf = (of: Shape): Shape => ({ kind: "list", of });

const tensorShape = message({ name: text, datatype: text, shape: listOf(int64), optional: bool });

const servingShape = message({
  inputs: listOf(tensorShape),
  outputs: listOf(tensorShape),
  views: listOf(message({ name: text, entityInput: text, width: uint32 })),
  transform: text,
  upstreamInputs: listOf(tensorShape),
  batching: message({ maxBatchSize: uint32, maxQueueDelayUs: uint32, maxQueueSize: uint32, maxInFlight: uint32 }),
  cache: message({ enabled: bool, maxBytes: uint64 }),
});

export const modelShape = message({
  name: text,
  owner: text,
  defaultAlias: text,
  slo: message({ deadlineMs: uint32, availability: double }),
  allowedTenants: texts,
  stickyHeader: text,
  corsOrigins: texts,
});

export const versionShape = message({
  model: text,
  version: int64,
  envelope: bytes,
  serving: servingShape,
  artifactDigest: text,
  createdAt: timestamp,
  lineage: { kind: "map", of: text },
});

export const stageShape = message({
  model: text,
  version: int64,
  seq: int64,
  stage: { kind: "enum", names: ["STAGE_REGISTERED", "STAGE_STAGING", "STAGE_PRODUCTION", "STAGE_ARCHIVED"] },
  actor: text,
  reason: text,
  at: timestamp,
});

export const aliasShape = message({
  model: text,
  alias: text,
  split: listOf(message({ version: int64, weight: uint32 })),
  fallback: texts,
  shadow: message({ version: int64, sample: double }),
  deadlineMs: uint32,
  rolloutId: text,
});

export const tenantShape = message({
  name: text,
  keys: listOf(message({ id: text, sha256: bytes, createdAt: timestamp })),
  models: texts,
  plan: message({ priority: text }),
});

export const replicaShape = message({
  model: text,
  version: int64,
  id: text,
  address: text,
  state: {
    kind: "enum",
    names: ["REPLICA_STATE_STARTING", "REPLICA_STATE_READY", "REPLICA_STATE_DRAINING", "REPLICA_STATE_FAILED"],
  },
  loadedDigest: text,
  detail: text,
  tls: bool,
});

export const gatewayShape = message({
  name: text,
  httpAddress: text,
  httpPort: uint32,
  tlsPort: uint32,
  tlsCertificateFile: text,
  tlsPrivateKeyFile: text,
  maxRequestBytes: uint64,
  role: text,
  labels: { kind: "map", of: text },
  models: texts,
  runtime: { kind: "map", of: text },
  runtimeTtlSeconds: uint32,
  meshCertificateFile: text,
  meshPrivateKeyFile: text,
  meshCaFile: text,
});
