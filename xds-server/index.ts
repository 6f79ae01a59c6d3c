export { type AdminClient, type AdminClientOptions, AdminError, createAdminClient } from "./admin/admin-client.js";
export {
  type ControlPlane,
  type ControlPlaneDeps,
  type ControlPlaneOptions,
  createControlPlane,
} from "./control-plane.js";
export { type GateTools, gateToolsOf } from "./gate-compiler.js";
export { type Address, parseLoopbackAddress } from "./platform/address.js";
export { type Clock, systemClock } from "./platform/clock.js";
export { createLogger, type Logger, type LogLevel } from "./platform/logger.js";
export { readToken } from "./platform/token-file.js";
export { formatKey } from "./registry/keys.js";
export { formatRecord, type RegistryRecord } from "./registry/records.js";
export { RegistryView } from "./registry/registry-view.js";
export type { Finding } from "./registry/state.js";
export { buildSnapshot } from "./snapshot/snapshot.js";
export type { MeshResources } from "./translate/translate.js";
export { type NodeStatus, type SettleReport, type TypeStatus, XdsServer } from "./xds/xds-server.js";
export { createXdsPipeline, type XdsPipeline } from "./xds-pipeline.js";
