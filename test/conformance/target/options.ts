import { Command, InvalidArgumentError, Option } from "commander";

export interface TargetOptions {
  readonly xdsPort: number;
  readonly adapterPort: number;
  /** Log every response. */
  readonly verbose: boolean;
}

/** The ports at which the suite looks when it is not told others. */
const XDS_PORT = 18_000;
const ADAPTER_PORT = 17_000;

const EPILOGUE = `
Port 0 takes any free port; one JSON line on stdout tells the addresses when both are open. Ctrl-C ends.

The suite is not part of this project. To run it from a clone of github.com/ii/xds-test-harness, set up as its README says:
  go run . --target :18000 --adapter :17000 --nodeID test-id

Exit status: 0 ended in order, 1 cannot start or broke, 2 wrong command line.`;

/** The target's command line. A wrong one, and `--help`, are thrown as CommanderError after their text. */
export function readTargetOptions(argv: readonly string[]): TargetOptions {
  const command = new Command("npm run conformance:target --")
    .description(
      "Starts the xDS server of the mesh with nothing in it, and a service by which a conformance suite for xDS servers " +
        "sets what it serves. Plain text, loopback only.",
    )
    .addOption(port("--xds-port <port>", "discovery, aggregated and per type, state of the world and delta", XDS_PORT))
    .addOption(port("--adapter-port <port>", "adapter.Adapter: SetState and its like", ADAPTER_PORT))
    .option("--verbose", "log every response on stderr", false)
    .allowExcessArguments(false)
    .exitOverride()
    .addHelpText("after", EPILOGUE);
  const options = command.parse([...argv], { from: "user" }).opts<TargetOptions>();
  if (options.xdsPort === options.adapterPort && options.xdsPort !== 0) {
    command.error("error: --xds-port and --adapter-port must be different", { exitCode: 2 });
  }
  return options;
}

function port(flags: string, description: string, standard: number): Option {
  return new Option(flags, description).default(standard).argParser((text) => {
    if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535) {
      throw new InvalidArgumentError("it must be a port number, 0 to 65535.");
    }
    return Number(text);
  });
}
