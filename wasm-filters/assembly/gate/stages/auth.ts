import { literal, Span } from "../../proxy-wasm/index";
import { Call, Kind } from "../call";
import { Config, NONE } from "../config";
import { BAD_AUTHORIZATION, BAD_KEY, NO_KEY, Refusal, TWO_KEYS } from "../refusals";
import { RequestHeaders } from "../request-headers";
import { sha256 } from "../sha256";

const BEARER = literal("bearer ");
/** Keys have at least 128 random bits, so a few dozen characters; longer ones are not worth hashing. */
const KEY_MAX: u32 = 512;
const digest: usize = memory.data(32);
const key = new Span();

/**
 * Who calls: sets the call's tenant. Every credential counts, because a host look-up would show only the first; two of
 * them are refused even when equal. Liveness and readiness of the server are for load balancers and need no key.
 */
export function decideAuth(call: Call, headers: RequestHeaders, config: Config): Refusal | null {
  if (call.kind === Kind.ServerLive || call.kind === Kind.ServerReady) return null;
  const credentials = headers.authorization.count + headers.apiKey.count;
  if (credentials === 0) return NO_KEY;
  if (credentials > 1) return TWO_KEYS;
  if (headers.apiKey.count === 1) key.copyFrom(headers.apiKey.value);
  else if (!readBearer(headers.authorization.value)) return BAD_AUTHORIZATION;
  if (key.length === 0 || key.length > KEY_MAX) return BAD_KEY;
  sha256(key.pointer, key.length, digest);
  call.tenant = config.findTenant(digest);
  return call.tenant === NONE ? BAD_KEY : null;
}

/** RFC 6750: `Bearer`, in any case, one space, b64token. */
function readBearer(value: Span): bool {
  if (!value.startsWithIgnoreCase(BEARER)) return false;
  key.set(value.pointer + BEARER.length, value.length - BEARER.length);
  if (key.length > KEY_MAX) return true;
  let index: u32 = 0;
  while (index < key.length && isTokenByte(key.at(index))) index++;
  if (index === 0) return false;
  while (index < key.length && key.at(index) === 0x3d) index++;
  return index === key.length;
}

/** Letters, digits and `-._~+/`. */
function isTokenByte(byte: u8): bool {
  const lower = byte | 0x20;
  if (lower >= 0x61 && lower <= 0x7a) return true;
  return (byte >= 0x2b && byte <= 0x39 && byte !== 0x2c) || byte === 0x5f || byte === 0x7e;
}
