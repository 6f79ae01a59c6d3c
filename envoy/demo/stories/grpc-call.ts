import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { pythonCommand } from "../../run/binaries.js";
import { repositoryRoot } from "../../run/paths.js";
import { checkEqual, checkOneOf } from "../check.js";
import type { Story } from "../story.js";

/** Python sources are not compiled, so they are found from the root and not beside this file. */
export const GRPC_CALL_SCRIPT = "envoy/demo/grpc_call.py";
const TIMEOUT_MS = 30_000;

interface Printed {
  readonly model_name: string;
  readonly model_version: string;
  readonly score: number;
}

/** The unmodified Python tritonclient, with an alias in `model_name`; its score must be that of the REST door, bit by bit. */
export const grpcCall: Story = {
  title: 'a gRPC call by Python\'s tritonclient, model_name="ranker@prod"',
  async play({ mesh, client, nextPair }) {
    const pair = nextPair();
    const { stdout } = await promisify(execFile)(
      pythonCommand(),
      [
        join(repositoryRoot, GRPC_CALL_SCRIPT),
        ...["--url", mesh.grpcAddress, "--key", mesh.apiKey],
        ...["--user", String(pair.userId), "--item", String(pair.itemId)],
      ],
      { timeout: TIMEOUT_MS },
    );
    const printed = JSON.parse(stdout) as Printed;
    const rest = await client.predict(pair, { model: `ranker/versions/${printed.model_version}` });
    return {
      checks: [
        checkEqual("grpc: model_name of the answer", printed.model_name, "ranker@prod"),
        checkOneOf("grpc: model_version of the answer", printed.model_version, ["41", "42"]),
        checkEqual("grpc: score equals that of the REST door", printed.score, Math.fround(rest.score ?? Number.NaN)),
      ],
      lines: [
        `score ${printed.score.toFixed(4)} by ranker:${printed.model_version}; REST gives ${rest.score?.toFixed(4)}`,
      ],
    };
  },
};
