import { clearOut, out, outLength, outPointer } from "./arena";
import { Status } from "./constants";
import { proxy_get_buffer_bytes, proxy_set_buffer_bytes } from "./host-functions";
import { Span } from "./span";

/** Up to `length` bytes of a buffer from its start; false (and `bytes` empty) when there are none. */
export function readBuffer(buffer: u32, length: u32, bytes: Span): bool {
  bytes.clear();
  if (length === 0) return false;
  clearOut();
  if (proxy_get_buffer_bytes(buffer, 0, length, out, out + 4) !== Status.Ok || outLength() === 0) return false;
  bytes.set(outPointer(), outLength());
  return true;
}

/** Puts `length` bytes in place of the first `replaced` bytes of a buffer. */
@inline
export function replaceBuffer(buffer: u32, replaced: u32, pointer: usize, length: u32): void {
  proxy_set_buffer_bytes(buffer, 0, replaced, pointer, length);
}
