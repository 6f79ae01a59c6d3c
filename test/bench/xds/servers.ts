import { connect } from "node:net";
import { join } from "node:path";
import { repositoryRoot } from "@servemesh/envoy";
import { eventually } from "../../support/eventually.js";
import { startLogged } from "../logged-process.js";

const TARGET = join(repositoryRoot, "test/dist/bench/xds/target.js");

/** A running ADS server with the common resources. */
export interface XdsServerProcess {
  readonly name: string;
  readonly pid: number;
  readonly adsAddress: string;
  /** `?kind=route` or `?kind=endpoint` makes one change. */
  readonly changeUrl: string;
  stop(): Promise<void>;
}

interface ServerPlan {
  readonly name: string;
  readonly command: readonly string[];
  readonly adsPort: number;
  readonly controlPort: number;
}

/** Ours and both kinds of the peer, in the order in which a round measures them. */
export function serverPlans(peer: string, data: string, basePort: number): ServerPlan[] {
  const peerCommand = (ads: number, control: number) => [peer, "-port", String(ads), "-ctl", String(control)];
  return [
    {
      name: "servemesh",
      command: [process.execPath, "--max-semi-space-size=32", TARGET, String(basePort), String(basePort + 1), data],
      adsPort: basePort,
      controlPort: basePort + 1,
    },
    {
      name: "snapshot",
      command: peerCommand(basePort + 2, basePort + 3),
      adsPort: basePort + 2,
      controlPort: basePort + 3,
    },
    {
      name: "linear",
      command: [...peerCommand(basePort + 4, basePort + 5), "-linear"],
      adsPort: basePort + 4,
      controlPort: basePort + 5,
    },
  ];
}

/** Starts a server and waits until both ports are open. */
export async function startServer(plan: ServerPlan, folder: string): Promise<XdsServerProcess> {
  const [program = "", ...flags] = plan.command;
  const server = startLogged(program, flags, join(folder, `${plan.name}.log`));
  for (const port of [plan.adsPort, plan.controlPort]) {
    await eventually(`${plan.name} listens on ${port}`, () => isOpen(port), { timeoutMs: 20_000 });
  }
  return {
    name: plan.name,
    pid: server.pid,
    adsAddress: `127.0.0.1:${plan.adsPort}`,
    changeUrl: `http://127.0.0.1:${plan.controlPort}/change`,
    stop: () => server.stop("SIGKILL"),
  };
}

function isOpen(port: number): Promise<true | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(undefined));
  });
}
