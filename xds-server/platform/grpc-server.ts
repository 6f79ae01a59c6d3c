import type { Server, ServerCredentials } from "@grpc/grpc-js";
import { type Address, formatAddress } from "./address.js";

/**
 * Opens a server.
 * @param field flag that an error names
 * @returns the bound address, with the port that the operating system chose for port 0
 * @throws Error with one sentence when the port cannot be opened
 */
export function bindServer(
  server: Server,
  credentials: ServerCredentials,
  address: Address,
  field: string,
): Promise<Address> {
  return new Promise((resolve, reject) => {
    server.bindAsync(formatAddress(address), credentials, (error, port) => {
      if (error === null) resolve({ host: address.host, port });
      else reject(new Error(portProblem(field, address, error)));
    });
  });
}

/** One sentence for a port that cannot be opened. */
export function portProblem(field: string, address: Address, error: Error): string {
  const where = formatAddress(address);
  if (/EADDRINUSE/.test(error.message)) {
    return `${field}: ${where} is taken by another process; stop that process or choose another port`;
  }
  return `${field}: ${where} cannot be opened: ${error.message}`;
}

/** Lets answers that are being written go out, but never waits longer than `graceMs` for a silent peer. */
export function shutDownServer(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const force = setTimeout(() => {
      server.forceShutdown();
      resolve();
    }, graceMs);
    server.tryShutdown(() => {
      clearTimeout(force);
      resolve();
    });
  });
}
