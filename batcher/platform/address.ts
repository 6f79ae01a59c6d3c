/** A parsed `host:port`. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

const LOOPBACK = /^(127(\.\d{1,3}){3}|localhost|\[::1\])$/;

/**
 * Parses `host:port`.
 * @param field what the user set, named in the error, e.g. `--listen`
 * @throws Error with one clear sentence
 */
export function parseAddress(text: string, field: string): Address {
  const at = text.lastIndexOf(":");
  const host = text.slice(0, at);
  const digits = text.slice(at + 1);
  const port = Number(digits);
  if (at <= 0 || !/^\d{1,5}$/.test(digits) || port > 65535) {
    throw new Error(`${field}: "${text}" is not host:port; write for example 127.0.0.1:19000`);
  }
  return { host, port };
}

/**
 * The same, and allows loopback hosts only, because the connection is plain text (DESIGN §9).
 * @param remedy what to do if it has to be elsewhere; nothing when it cannot be
 * @throws Error with one clear sentence
 */
export function parseLoopbackAddress(text: string, field: string, remedy = ""): Address {
  const address = parseAddress(text, field);
  if (LOOPBACK.test(address.host)) return address;
  throw new Error(
    `${field}: "${address.host}" is not a loopback host; plain text is allowed on 127.0.0.1, localhost or [::1] only${remedy}`,
  );
}

/** The inverse of parseAddress. */
export function formatAddress(address: Address): string {
  return `${address.host}:${address.port}`;
}
