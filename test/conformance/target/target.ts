import { Server, ServerCredentials } from "@grpc/grpc-js";
import { createLogger, systemClock, XdsServer } from "@servemesh/xds-server";
import { addAdapter } from "./adapter-service.js";
import { forcedSnapshot } from "./forced-snapshot.js";
import type { TargetOptions } from "./options.js";

const HOST = "127.0.0.1";
/** How long calls that are under way get when the target ends. */
const END_PATIENCE_MS = 2_000;

/** The xDS server of the mesh, whose state comes from the adapter. */
export interface Target {
  readonly xdsPort: number;
  readonly adapterPort: number;
  /** Ends all streams, lets calls finish, frees the ports. */
  close(): Promise<void>;
}

/** @throws Error, in words for people, when a port cannot be had */
export async function startTarget({ xdsPort, adapterPort, verbose }: TargetOptions): Promise<Target> {
  const xds = new XdsServer({ clock: systemClock, logger: createLogger(verbose ? "info" : "warn") });
  xds.setSnapshot(forcedSnapshot(new Map()));
  const discovery = new Server();
  const adapter = new Server();
  xds.addTo(discovery);
  addAdapter(adapter, { clock: systemClock, publish: (snapshot) => xds.setSnapshot(snapshot) });
  const close = async (): Promise<void> => {
    xds.close();
    await Promise.all([endOf(discovery), endOf(adapter)]);
  };
  try {
    return {
      xdsPort: await listen(discovery, xdsPort, "--xds-port"),
      adapterPort: await listen(adapter, adapterPort, "--adapter-port"),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function listen(server: Server, port: number, flag: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(`${HOST}:${port}`, ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else if (error.message.includes("EADDRINUSE"))
        reject(new Error(`port ${port} is in use; give another one with ${flag}`));
      else reject(new Error(`cannot listen on ${HOST}:${port} (${flag}): ${error.message}`));
    });
  });
}

function endOf(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const cancel = systemClock.schedule(END_PATIENCE_MS, () => {
      server.forceShutdown();
      resolve();
    });
    server.tryShutdown(() => {
      cancel();
      resolve();
    });
  });
}
