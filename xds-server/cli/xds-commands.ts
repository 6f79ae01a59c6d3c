import {
  DumpXdsResponse,
  ListXdsNodesResponse,
  XdsNack,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import { type Command, Option } from "commander";
import type { Ask } from "./answer.js";
import { showXdsDiff, showXdsDump, showXdsNacks, showXdsNodes } from "./show-xds.js";
import { TYPE_WORDS, typeUrlOf } from "./xds-types.js";

interface DumpFlags {
  readonly type?: string;
  readonly name?: string;
  readonly full?: true;
}

/** `meshctl xds`: what Envoys were sent, have and refuse. */
export function addXdsCommands(program: Command, ask: Ask): void {
  const xds = program.command("xds").description("What Envoys were sent, have taken and refuse");
  xds
    .command("nodes")
    .description("each connected Envoy and type: versions, counts, refusals")
    .allowExcessArguments(false)
    .action((_, command: Command) =>
      ask(command, async (client) => {
        const answered = await client.listXdsNodes();
        return { json: ListXdsNodesResponse.toJSON(answered), text: showXdsNodes(answered.nodes) };
      }),
    );
  addDump(xds, ask);
  xds
    .command("diff")
    .description("what one Envoy has not yet acknowledged of the present state")
    .argument("<node>", "its node id")
    .allowExcessArguments(false)
    .action((nodeId: string, _, command: Command) =>
      ask(command, async (client) => {
        const answered = await client.dumpXds({ nodeId, unacknowledgedOnly: true });
        return { json: dumpJson(answered), text: showXdsDiff(answered) };
      }),
    );
  xds
    .command("nacks")
    .description("the latest refusals of connected Envoys, in their words")
    .allowExcessArguments(false)
    .action((_, command: Command) =>
      ask(command, async (client) => {
        const { nodes } = await client.listXdsNodes();
        const json = nodes.map(({ nodeId, nackCount, nacks }) => ({
          nodeId,
          nackCount: nackCount.toString(),
          nacks: nacks.map((nack) => XdsNack.toJSON(nack)),
        }));
        return { json: { nodes: json }, text: showXdsNacks(nodes) };
      }),
    );
}

function addDump(xds: Command, ask: Ask): void {
  xds
    .command("dump")
    .description("one Envoy's resources, as they were sent to it; secrets are redacted")
    .argument("<node>", "its node id")
    .addOption(new Option("--type <type>", "only this type").choices(TYPE_WORDS))
    .option("--name <prefix>", "only names that begin so")
    .option("--full", "with contents as JSON")
    .allowExcessArguments(false)
    .action((nodeId: string, { type, name, full }: DumpFlags, command: Command) =>
      ask(command, async (client) => {
        const contents = full === true;
        const request = { nodeId, typeUrl: typeUrlOf(type), namePrefix: name ?? "", contents };
        const answered = await client.dumpXds(request);
        return { json: dumpJson(answered), text: showXdsDump(answered, contents) };
      }),
    );
}

/** The answer's JSON with each content as an object instead of a text of JSON. */
function dumpJson(response: DumpXdsResponse): unknown {
  const { resources = [], ...rest } = DumpXdsResponse.toJSON(response) as { resources?: { json?: string }[] };
  return {
    ...rest,
    resources: resources.map(({ json, ...resource }) =>
      json === undefined ? resource : { ...resource, content: JSON.parse(json) as unknown },
    ),
  };
}
