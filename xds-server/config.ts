import { Command, InvalidArgumentError, Option } from "commander";
import type { ControlPlaneOptions } from "./control-plane.js";
import { type Address, parseLoopbackAddress } from "./platform/address.js";
import { LOG_LEVELS, type LogLevel } from "./platform/logger.js";
import { SOFTWARE_VERSION } from "./platform/version.js";

/** What the command line says. */
export interface Config {
  readonly options: ControlPlaneOptions;
  readonly logLevel: LogLevel;
}

interface Flags {
  readonly store: string;
  readonly ads: Address;
  readonly admin: Address;
  readonly health: Address;
  readonly tokenFile: string;
  readonly accessLog?: string;
  readonly logLevel: LogLevel;
}

/** The control plane's command. A wrong flag is thrown as a CommanderError after one line on stderr. */
export function createCommand(): Command {
  return new Command("servemesh-control-plane")
    .description("Pushes routes from the model registry to Envoys, by delta ADS. Plain text, loopback only.")
    .requiredOption("--store <dir>", "folder of the registry; made if absent")
    .requiredOption("--token-file <file>", "bearer token of the admin port; made with mode 0600 if absent")
    .addOption(address("--ads <host:port>", "ADS for Envoys and ReplicaService for batchers", 18_000))
    .addOption(address("--admin <host:port>", "AdminService, for meshctl", 18_001))
    .addOption(address("--health <host:port>", "HTTP: /live, /ready and /metrics", 18_002))
    .option("--access-log <path>", "file for one JSON line per call, written by the gateways")
    .addOption(new Option("--log-level <level>", "least level to log").choices(LOG_LEVELS).default("info"))
    .version(SOFTWARE_VERSION)
    .allowExcessArguments(false)
    .exitOverride()
    .addHelpText(
      "after",
      "\nPort 0 takes any free port; one JSON line on stdout tells the ports when all are open.\n\nExample:\n  servemesh-control-plane --store var/demo/store --token-file var/demo/token",
    );
}

/** @throws CommanderError on a wrong flag, and for --help and --version */
export function readConfig(command: Command, argv: readonly string[]): Config {
  const { logLevel, accessLog, ...flags } = command.parse([...argv], { from: "user" }).opts<Flags>();
  return { logLevel, options: { ...flags, ...(accessLog === undefined ? {} : { accessLog }) } };
}

function address(flags: string, description: string, port: number): Option {
  return new Option(flags, description).default({ host: "127.0.0.1", port }, `127.0.0.1:${port}`).argParser((text) => {
    const name = flags.split(" ")[0] ?? flags;
    try {
      return parseLoopbackAddress(text, name);
    } catch (error) {
      throw new InvalidArgumentError((error as Error).message);
    }
  });
}
