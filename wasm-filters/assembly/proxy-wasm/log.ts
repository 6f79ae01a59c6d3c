import { out } from "./arena";
import { proxy_get_log_level, proxy_log } from "./host-functions";
import { Span } from "./span";

/** True when the host would write a message of this level: ask before building a text. */
export function logs(level: u32): bool {
  store<u32>(out, 0);
  proxy_get_log_level(out);
  return level >= load<u32>(out);
}

@inline
export function log(level: u32, message: Span): void {
  proxy_log(level, message.pointer, message.length);
}

@inline
export function logBytes(level: u32, pointer: usize, length: u32): void {
  proxy_log(level, pointer, length);
}
