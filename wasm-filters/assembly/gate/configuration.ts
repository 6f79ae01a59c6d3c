import { Buffer, LogLevel, log, readBuffer, Span } from "../proxy-wasm/index";
import { Config, freeConfig } from "./config";
import { parseConfig, problem } from "./config-parser";

/*
 * The configuration in force. All root contexts of a VM share it: Envoy gives one gate one VM key, and a new configuration
 * of the same gate arrives as a new root in the same VM, where it must hold at once. (Gates with different configurations
 * need different vm_ids.) A stream that waits for its body keeps the configuration under which it began.
 */
const CONFIGURATION_MAX: u32 = 16 * 1024 * 1024;

let current: Config | null = null;
const bytes = new Span();

export function currentConfig(): Config | null {
  return current;
}

/** Takes the plugin configuration that the host holds. On false the one in force stays. */
export function configure(length: u32): bool {
  if (length > CONFIGURATION_MAX || !readBuffer(Buffer.PluginConfiguration, length, bytes)) {
    // Reading nothing gives the parser nothing, and it says so.
    bytes.clear();
  }
  const block = heap.alloc(max<usize>(bytes.length, 8));
  memory.copy(block, bytes.pointer, bytes.length);
  const parsed = parseConfig(block, bytes.length);
  if (parsed === null) {
    heap.free(block);
    log(LogLevel.Error, problem);
    return false;
  }
  const old = current;
  current = parsed;
  if (old !== null) retire(old);
  return true;
}

/** Keeps the configuration for a stream until `unpin`. */
export function pin(config: Config): void {
  config.pins++;
}

export function unpin(config: Config): void {
  config.pins--;
  if (config.retired && config.pins === 0) free(config);
}

function retire(config: Config): void {
  config.retired = true;
  if (config.pins === 0) free(config);
}

function free(config: Config): void {
  heap.free(config.block);
  freeConfig(config);
}
