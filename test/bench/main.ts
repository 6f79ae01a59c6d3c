import { parseArgs } from "node:util";
import { apply } from "./apply.js";
import { overhead } from "./overhead.js";
import type { BenchResult } from "./report.js";
import { compareXds } from "./xds/compare.js";
import { xdsCost } from "./xds-cost.js";

/** Every benchmark by name, with one line of what it measures. */
const BENCHES: Readonly<Record<string, { readonly about: string; run(): Promise<BenchResult> }>> = {
  apply: { about: "from a registry write to an answer of the other version, 200 changes at 200 calls/s", run: apply },
  overhead: { about: "what batcher, Envoy and gate add to a direct call of Triton, at 200 calls/s", run: overhead },
  xds: { about: "our xDS server beside go-control-plane, 1,000 streams (needs Go)", run: compareXds },
  "xds-cost": { about: "what one registry change costs with 10 to 5,000 models", run: xdsCost },
};

const HELP = `Usage: npm run bench -- <name>

${Object.entries(BENCHES)
  .map(([name, { about }]) => `  ${name.padEnd(12)} ${about}`)
  .join("\n")}

The last line is one JSON object {"bench","bars":[{"name","value","bar","pass"}],"figures"}. Exit status: 0 all bars pass,
1 a bar or the benchmark itself fails, 2 wrong usage. Figures of earlier runs: test/bench/RESULTS.md.`;

async function main(): Promise<number> {
  const { positionals, values } = parseArgs({ allowPositionals: true, options: { help: { type: "boolean" } } });
  if (values.help) {
    console.log(HELP);
    return 0;
  }
  const [name = "", ...rest] = positionals;
  const bench = Object.hasOwn(BENCHES, name) ? BENCHES[name] : undefined;
  if (bench === undefined || rest.length > 0) {
    console.error(`give the name of one benchmark\n\n${HELP}`);
    return 2;
  }
  const result = await bench.run();
  console.log(JSON.stringify(result));
  return result.bars.every((bar) => bar.pass) ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  // parseArgs throws its own kind of error for a flag that it does not know.
  const isUsage = error instanceof TypeError && "code" in error;
  console.error(isUsage ? `${error.message}\n\n${HELP}` : error instanceof Error ? error.message : error);
  process.exitCode = isUsage ? 2 : 1;
}
