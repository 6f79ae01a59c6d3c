export type { FeatureLookup, FeatureRows, FeatureStore } from "./features/feature-store.js";
export { type FeatureRow, type FeatureWriter, openFeatureWriter } from "./features/feature-writer.js";
export { type Address, parseLoopbackAddress } from "./platform/address.js";
export { createLogger, type Logger } from "./platform/logger.js";
export {
  createSidecar,
  DEFAULT_LIMITS,
  type Sidecar,
  type SidecarDeps,
  type SidecarLimits,
  type SidecarOptions,
} from "./sidecar.js";
