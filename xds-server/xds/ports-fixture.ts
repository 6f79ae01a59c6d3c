import { createServer } from "node:net";

/** Below Linux's range for outgoing connections, so that no client takes a port between its choice and its use. */
const FIRST_PORT = 20_000;
const LAST_PORT = 32_000;

/**
 * Ports of 127.0.0.1 that nobody listens on. Each process starts to look elsewhere, so that test files that run at the
 * same time do not choose the same.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  const span = LAST_PORT - FIRST_PORT;
  const start = (process.pid * 97) % span;
  for (let step = 0; ports.length < count; step += 1) {
    if (step === span) throw new Error(`no ${count} free ports between ${FIRST_PORT} and ${LAST_PORT}`);
    const port = FIRST_PORT + ((start + step) % span);
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(true)));
  });
}
