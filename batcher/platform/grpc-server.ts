import { type Server, ServerCredentials } from "@grpc/grpc-js";

/** Binds in plain text. @returns the bound port */
export function bindServer(server: Server, address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error, port) => {
      if (error === null) resolve(port);
      else reject(error);
    });
  });
}

/** How long answers that are being written may take to go out, in ms. */
const SHUT_DOWN_MS = 1_000;

/** Lets answers that are being written go out, but never waits for a silent peer. */
export function shutDownServer(server: Server | undefined): Promise<void> {
  if (server === undefined) return Promise.resolve();
  return new Promise((resolve) => {
    const force = setTimeout(() => {
      server.forceShutdown();
      resolve();
    }, SHUT_DOWN_MS);
    server.tryShutdown(() => {
      clearTimeout(force);
      resolve();
    });
  });
}

/** Says which flag a failure belongs to. */
export async function naming<V>(flag: string, work: Promise<V>): Promise<V> {
  try {
    return await work;
  } catch (error) {
    throw new Error(`${flag}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
