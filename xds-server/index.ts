export { type AdminClient, type AdminClientOptions, AdminError, createAdminClient } from "./admin/admin-client.js";
export {
  type ControlPlane,
  type ControlPlaneDeps,
  type ControlPlaneOptions,
  createControlPlane,
} from "./control-plane.js";
export type { GateTools } from "./gate-compiler.js";
export { type Address, parseLoopbackAddress } from "./platform/address.js";
export { type Clock, systemClock } from "./platform/clock.js";
export { createLogger, type Logger, type LogLevel } from "./platform/logger.js";
export { readToken } from "./platform/token-file.js";
export type { Finding } from "./registry/state.js";
export type { NodeStatus, SettleReport, TypeStatus } from "./xds/xds-server.js";
