import { Command, InvalidArgumentError } from "commander";

export interface DemoOptions {
  /** End after the stories instead of staying up. */
  readonly exit: boolean;
  /** Where to write the checks. */
  readonly json?: string;
  readonly basePort?: number;
}

/** The demo's command line. A wrong one, `--help` and the like are thrown as CommanderError after their text. */
export function readDemoOptions(argv: readonly string[]): DemoOptions {
  return createCommand()
    .parse([...argv], { from: "user" })
    .opts<DemoOptions>();
}

function createCommand(): Command {
  return new Command("npm run demo --")
    .description(
      "Starts the whole mesh on this machine (control plane, Envoy, a batcher and a Triton per version), plays what it can do,\n" +
        "prints what happened, and stays up until Ctrl-C. All addresses are loopback; files go to var/demo.",
    )
    .option("--exit", "end after the report; status 0 if every check passed, else 1", false)
    .option("--json <file>", 'also write {"ok","checks":[{"name","pass","value","expected"}]}')
    .option("--base-port <n>", "move all ports: this one and the 49 after it", readPort)
    .allowExcessArguments(false)
    .exitOverride();
}

function readPort(text: string): number {
  if (!/^\d{1,5}$/.test(text)) throw new InvalidArgumentError("it must be a port number.");
  return Number(text);
}
