import { clearOut, out, outLength, outPointer } from "./arena";
import { Status } from "./constants";
import {
  proxy_add_header_map_value,
  proxy_get_header_map_value,
  proxy_remove_header_map_value,
  proxy_replace_header_map_value,
} from "./host-functions";
import { Span } from "./span";

/** First value of a header into `value`; false (and `value` cleared) when there is none. About 0.5 µs when present. */
export function getHeader(map: u32, name: Span, value: Span): bool {
  clearOut();
  if (proxy_get_header_map_value(map, name.pointer, name.length, out, out + 4) !== Status.Ok) {
    value.clear();
    return false;
  }
  // The host gives no address for an empty value; any will do, so that it counts as present.
  value.set(outLength() === 0 ? out : outPointer(), outLength());
  return true;
}

/** Sets a header to exactly one value, whatever was there: the right call for everything that a client must not forge. */
@inline
export function replaceHeader(map: u32, name: Span, value: Span): void {
  proxy_replace_header_map_value(map, name.pointer, name.length, value.pointer, value.length);
}

@inline
export function replaceHeaderBytes(map: u32, name: Span, pointer: usize, length: u32): void {
  proxy_replace_header_map_value(map, name.pointer, name.length, pointer, length);
}

/** Adds one more value beside those that are there; never for trusted headers. */
@inline
export function addHeader(map: u32, name: Span, value: Span): void {
  proxy_add_header_map_value(map, name.pointer, name.length, value.pointer, value.length);
}

/** Removes all values of a header; absent is fine. */
@inline
export function removeHeader(map: u32, name: Span): void {
  proxy_remove_header_map_value(map, name.pointer, name.length);
}

@inline
export function removeHeaderBytes(map: u32, pointer: usize, length: u32): void {
  proxy_remove_header_map_value(map, pointer, length);
}
