import { isIP } from "node:net";

/** An IP address (or `localhost`) with a port; port 0 lets the operating system choose one. */
export interface Address {
  /** Without brackets. */
  readonly host: string;
  readonly port: number;
}

/**
 * Reads `host:port` or `[ipv6]:port`.
 * @param field flag or field that errors name
 * @throws Error with one sentence
 */
export function parseAddress(text: string, field: string): Address {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+)):([0-9]{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || port > 65_535) {
    throw new Error(`${field}: "${text.slice(0, 80)}" is not host:port; write for example 127.0.0.1:18000`);
  }
  return { host, port };
}

/**
 * The same, and refuses everything but this machine: traffic is plain text.
 * @throws Error with one sentence
 */
export function parseLoopbackAddress(text: string, field: string): Address {
  const address = parseAddress(text, field);
  if (isLoopback(address.host)) return address;
  throw new Error(
    `${field}: "${address.host}" is not a loopback address, and this port speaks plain text; write 127.0.0.1 or [::1]`,
  );
}

/** `host:port` with brackets around IPv6. */
export function formatAddress({ host, port }: Address): string {
  return isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`;
}

export function isLoopback(host: string): boolean {
  const ip = stripMappedPrefix(host);
  return host === "localhost" || host === "::1" || (isIP(ip) === 4 && ip.startsWith("127."));
}

/** True when both are the same machine as far as addresses can tell: equal, or both loopback. */
export function isSameMachine(a: string, b: string): boolean {
  return stripMappedPrefix(a) === stripMappedPrefix(b) || (isLoopback(a) && isLoopback(b));
}

/** A dual-stack socket shows an IPv4 peer as `::ffff:127.0.0.1`. */
function stripMappedPrefix(host: string): string {
  return host.toLowerCase().startsWith("::ffff:") ? host.slice("::ffff:".length) : host;
}
