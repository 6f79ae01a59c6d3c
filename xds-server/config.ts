import { Command, InvalidArgumentError, Option } from "commander";
import type { ControlPlaneOptions } from "./control-plane.js";
import { type Address, isLoopback, parseAddress, parseLoopbackAddress } from "./platform/address.js";
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
  readonly tlsCertificate?: string;
  readonly tlsKey?: string;
  readonly tlsClientCa?: string;
  readonly batcherRange?: readonly string[];
}

/** The control plane's command. A wrong flag is thrown as a CommanderError after one line on stderr. */
export function createCommand(): Command {
  return new Command("servemesh-control-plane")
    .description("Pushes routes from the model registry to Envoys, by delta ADS.")
    .requiredOption("--store <dir>", "folder of the registry; made if absent")
    .requiredOption("--token-file <file>", "bearer token of the admin port; made with mode 0600 if absent")
    .addOption(address("--ads <host:port>", "ADS for Envoys and ReplicaService for batchers", 18_000, parseAddress))
    .addOption(address("--admin <host:port>", "AdminService, for meshctl", 18_001, parseLoopbackAddress))
    .addOption(address("--health <host:port>", "HTTP: /live, /ready and /metrics", 18_002, parseLoopbackAddress))
    .option(
      "--tls-certificate <file>",
      "mutual TLS of --ads: own certificate, for spiffe://<trust domain>/control-plane",
    )
    .option("--tls-key <file>", "its private key")
    .option("--tls-client-ca <file>", "issuers of the certificates of Envoys and batchers")
    .option(
      "--batcher-range <cidr...>",
      "addresses that batchers may register besides their connection's own; needs the --tls flags",
    )
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
  const flags = command.parse([...argv], { from: "user" }).opts<Flags>();
  const { store, ads, admin, health, tokenFile, accessLog, batcherRange, logLevel } = flags;
  const problem = trustProblem(flags);
  if (problem !== undefined) command.error(`error: ${problem}`);
  return {
    logLevel,
    options: {
      ...{ store, ads, admin, health, tokenFile },
      ...(accessLog === undefined ? {} : { accessLog }),
      ...tlsOf(flags),
      ...(batcherRange === undefined ? {} : { batcherRanges: batcherRange }),
    },
  };
}

function tlsOf({ tlsCertificate, tlsKey, tlsClientCa }: Flags): Pick<ControlPlaneOptions, "tls"> {
  if (tlsCertificate === undefined || tlsKey === undefined || tlsClientCa === undefined) return {};
  return { tls: { certificate: tlsCertificate, privateKey: tlsKey, clientAuthorities: tlsClientCa } };
}

/** Plain text never leaves the machine, and what TLS needs is complete. */
function trustProblem(flags: Flags): string | undefined {
  const { ads, tlsCertificate, tlsKey, tlsClientCa, batcherRange } = flags;
  const given = [tlsCertificate, tlsKey, tlsClientCa].filter((file) => file !== undefined).length;
  if (given !== 0 && given !== 3) {
    return "--tls-certificate, --tls-key, --tls-client-ca: give all three of them, or none for plain text on loopback";
  }
  if (given === 0 && !isLoopback(ads.host)) {
    return `--ads: "${ads.host}" is not a loopback address, and this port speaks plain text without --tls-certificate, --tls-key and --tls-client-ca; give them, or write 127.0.0.1 or [::1]`;
  }
  if (given === 0 && batcherRange !== undefined) {
    return "--batcher-range needs --tls-certificate, --tls-key and --tls-client-ca: without them batchers stay on loopback";
  }
  return undefined;
}

function address(
  flags: string,
  description: string,
  port: number,
  parse: (text: string, field: string) => Address,
): Option {
  return new Option(flags, description).default({ host: "127.0.0.1", port }, `127.0.0.1:${port}`).argParser((text) => {
    const name = flags.split(" ")[0] ?? flags;
    try {
      return parse(text, name);
    } catch (error) {
      throw new InvalidArgumentError((error as Error).message);
    }
  });
}
