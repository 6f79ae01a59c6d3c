import {
  CreateTenantResponse,
  GetAliasResponse,
  GetModelResponse,
  GetStatusResponse,
  ListModelsResponse,
  ListTenantsResponse,
  SetAliasResponse,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import { Alias, type SplitMember } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { PRIORITY_BATCH, PRIORITY_INTERACTIVE } from "@servemesh/proto/names";
import { Command, Option } from "commander";
import { type AdminClient, AdminError, createAdminClient } from "../admin/admin-client.js";
import { readToken } from "../platform/token-file.js";
import { SOFTWARE_VERSION } from "../platform/version.js";
import type { Answer, Ask } from "./answer.js";
import {
  parseAliasRef,
  parseList,
  parseModelName,
  parseMs,
  parseRevision,
  parseSplit,
  parseVersionArgument,
} from "./arguments.js";
import { showAlias, showModel, showModels, showStatus, showTenants } from "./show.js";
import { addXdsCommands } from "./xds-commands.js";

interface GlobalFlags {
  readonly address: string;
  readonly tokenFile: string;
  readonly json?: true;
}

interface AliasFlags {
  /** False when asked to take it away. */
  readonly fallback?: string[] | false;
  readonly shadow?: bigint | false;
  readonly deadlineMs?: number;
  readonly expectedRevision?: bigint;
}

const EXAMPLES = `
Examples:
  meshctl status
  meshctl tenant add acme --models ranker,ranker-lite
  meshctl model show ranker
  meshctl alias show ranker
  meshctl alias set ranker@prod 41=95,42=5 --fallback ranker-lite:1 --shadow 43
  meshctl alias set ranker@prod 41=100,42=0 --expected-revision 17
  meshctl xds dump gateway-1 --type rds --full

Exit status: 0 done, 1 refused or failed, 2 wrong command line.`;

/** The operator's command line. Errors are thrown: CommanderError for a wrong command line, else one sentence. */
export function createMeshctl(print: (text: string) => void): Command {
  const program = new Command("meshctl")
    .description("Reads and changes the mesh, through its control plane's admin port.")
    .addOption(new Option("--address <host:port>", "admin port").default("127.0.0.1:18001").env("SERVEMESH_ADMIN"))
    .addOption(new Option("--token-file <file>", "its token").default("var/demo/token").env("SERVEMESH_TOKEN_FILE"))
    .option("--json", "print proto3 JSON")
    .version(SOFTWARE_VERSION)
    .exitOverride()
    .showHelpAfterError("(--help shows what is possible)")
    .addHelpText("after", EXAMPLES);
  const ask = (command: Command, question: (client: AdminClient, address: string) => Promise<Answer>): Promise<void> =>
    answer(command.optsWithGlobals<GlobalFlags>(), question, print);
  addTenantCommands(program, ask);
  addModelCommands(program, ask);
  addAliasCommands(program, ask);
  addXdsCommands(program, ask);
  program
    .command("status")
    .description("Envoys, replicas, and everything that is wrong")
    .allowExcessArguments(false)
    .action((_, command: Command) =>
      ask(command, async (client, address) => {
        const status = await client.getStatus();
        return { json: GetStatusResponse.toJSON(status), text: showStatus(status, address) };
      }),
    );
  return program;
}

async function answer(
  flags: GlobalFlags,
  question: (client: AdminClient, address: string) => Promise<Answer>,
  print: (text: string) => void,
): Promise<void> {
  const client = createAdminClient({ address: flags.address, token: readToken(flags.tokenFile) });
  try {
    const { json, text } = await question(client, flags.address);
    print(flags.json === true ? `${JSON.stringify(json, undefined, 2)}\n` : text);
  } finally {
    client.close();
  }
}

function addTenantCommands(program: Command, ask: Ask): void {
  const tenant = program.command("tenant").description("Who may call");
  tenant
    .command("add")
    .description("make a tenant with one API key, which is shown this once")
    .argument("<name>", "its name")
    .option("--models <list>", "models that it may call, a,b or '*'; default none", parseList, [])
    .addOption(
      new Option("--priority <class>", "of its calls")
        .choices([PRIORITY_INTERACTIVE, PRIORITY_BATCH])
        .default(PRIORITY_INTERACTIVE),
    )
    .allowExcessArguments(false)
    .action((name: string, { models, priority }: { models: string[]; priority: string }, command: Command) =>
      ask(command, async (client) => {
        const made = await client.createTenant({ tenant: { name, models, plan: { priority } } });
        const hint = models.length === 0 ? "It may call no model yet; --models names them.\n" : "";
        const text = `tenant ${name} made. Its API key, shown only now:\n${made.apiKey}\n${hint}`;
        return { json: CreateTenantResponse.toJSON(made), text };
      }),
    );
  tenant
    .command("list")
    .description("all tenants")
    .allowExcessArguments(false)
    .action((_, command: Command) =>
      ask(command, async (client) => {
        const answered = await client.listTenants();
        return { json: ListTenantsResponse.toJSON(answered), text: showTenants(answered.tenants) };
      }),
    );
}

function addModelCommands(program: Command, ask: Ask): void {
  const model = program.command("model").description("What is registered");
  model
    .command("list")
    .description("all models")
    .allowExcessArguments(false)
    .action((_, command: Command) =>
      ask(command, async (client) => {
        const answered = await client.listModels();
        return { json: ListModelsResponse.toJSON(answered), text: showModels(answered.models) };
      }),
    );
  model
    .command("show")
    .description("one model with its versions, stages, aliases and replicas")
    .argument("<model>", "its name", parseModelName)
    .allowExcessArguments(false)
    .action((name: string, _, command: Command) =>
      ask(command, async (client) => {
        const answered = await client.getModel({ model: name });
        return { json: GetModelResponse.toJSON(answered), text: showModel(answered) };
      }),
    );
}

function addAliasCommands(program: Command, ask: Ask): void {
  const alias = program.command("alias").description("What a name such as ranker@prod means");
  alias
    .command("show")
    .description("one alias and its revision")
    .argument("<reference>", "ranker@prod, or ranker for its default alias", parseAliasRef)
    .allowExcessArguments(false)
    .action((reference: AliasRef, _, command: Command) =>
      ask(command, async (client) => {
        const answered = await client.getAlias(reference);
        return { json: GetAliasResponse.toJSON(answered), text: showAlias(answered) };
      }),
    );
  alias
    .command("set")
    .description("replace an alias's split; what no flag names stays as it is")
    .argument("<reference>", "ranker@prod, or ranker for its default alias", parseAliasRef)
    .argument("<split>", "version=weight, such as 41=95,42=5; 0 takes a version out", parseSplit)
    .option("--fallback <list>", "versions to try next, such as ranker-lite:1", parseList)
    .option("--no-fallback", "no fallback any more")
    .option("--shadow <version>", "version that gets copies", parseVersionArgument)
    .option("--no-shadow", "no copies any more")
    .option("--deadline-ms <ms>", "own limit, at most the model's; 0 means the model's", parseMs)
    .option("--expected-revision <n>", "fail unless the alias is still at this one; 0: is new, -1: any", parseRevision)
    .allowExcessArguments(false)
    .action((reference: AliasRef, split: SplitMember[], flags: AliasFlags, command: Command) =>
      ask(command, async (client) => {
        const answered = await setAlias(client, reference, split, flags);
        return { json: SetAliasResponse.toJSON(answered), text: showAlias(answered) };
      }),
    );
}

interface AliasRef {
  readonly model: string;
  readonly alias: string;
}

/** Reads, changes and writes if nobody wrote in between. */
async function setAlias(
  client: AdminClient,
  ref: AliasRef,
  split: SplitMember[],
  flags: AliasFlags,
): Promise<SetAliasResponse> {
  const before = await presentAlias(client, ref);
  const alias = { ...before.alias, split };
  if (Array.isArray(flags.fallback)) alias.fallback = flags.fallback;
  if (flags.fallback === false) alias.fallback = [];
  if (typeof flags.shadow === "bigint") alias.shadow = { version: flags.shadow, sample: 0 };
  if (flags.shadow === false) alias.shadow = undefined;
  if (flags.deadlineMs !== undefined) alias.deadlineMs = flags.deadlineMs;
  return client.setAlias({ alias, expectedRevision: flags.expectedRevision ?? before.revision });
}

async function presentAlias(client: AdminClient, ref: AliasRef): Promise<{ alias: Alias; revision: bigint }> {
  try {
    const { alias, revision } = await client.getAlias(ref);
    return { alias: alias ?? Alias.fromPartial(ref), revision };
  } catch (error) {
    if (!(error instanceof AdminError) || error.status !== "NOT_FOUND") throw error;
    if (ref.alias !== "") return { alias: Alias.fromPartial(ref), revision: 0n };
    // The default alias does not exist yet; the model knows its name. An unknown model fails here.
    const { model } = await client.getModel({ model: ref.model });
    return { alias: Alias.fromPartial({ model: ref.model, alias: model?.defaultAlias || "prod" }), revision: 0n };
  }
}
