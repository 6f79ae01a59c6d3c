export { compileGateConfig } from "./config/compile.js";
export {
  GATE_LIMITS,
  type GateAlias,
  type GateConfig,
  GateConfigError,
  type GateModel,
  type GateTenant,
} from "./config/gate-config.js";
export { loadGateModule, type ModuleFile } from "./modules/files.js";
export { loadTransform, type Transform } from "./modules/transform.js";
export { type DryRunResult, dryRunGate } from "./testing/dry-run.js";
export type { HeaderList } from "./testing/header-map.js";
export { HostMisuseError, ModuleLoadError, ModuleTrapError } from "./testing/host-errors.js";
export { type LogLine, SharedState } from "./testing/host-state.js";
export { createMockHost, type MockHost, type MockHostOptions } from "./testing/mock-host.js";
export type { MockStream, Passed, Verdict } from "./testing/mock-stream.js";
export type { LocalReply } from "./testing/stream-state.js";
