import { Server, ServerCredentials, type sendUnaryData } from "@grpc/grpc-js";

/** The one method of a backend; its answer is the backend's name as plain bytes. */
export const NAME_METHOD = "/servemesh.test.Backend/Name";

export interface NamedBackend {
  readonly port: number;
  close(): void;
}

/** A gRPC server on a free port of this machine that answers every call with its name. */
export async function startNamedBackend(name: string): Promise<NamedBackend> {
  const raw = (bytes: Buffer): Buffer => bytes;
  const method = {
    path: NAME_METHOD,
    requestStream: false,
    responseStream: false,
    requestSerialize: raw,
    requestDeserialize: raw,
    responseSerialize: raw,
    responseDeserialize: raw,
  };
  const server = new Server();
  server.addService(
    { name: method },
    { name: (_call: unknown, answer: sendUnaryData<Buffer>) => answer(null, Buffer.from(name)) },
  );
  const port = await listen(server, 0);
  return { port, close: () => server.forceShutdown() };
}

/** @returns the port that was bound; any free one for 0 */
export function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
}
