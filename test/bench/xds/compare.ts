import { execFile, spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { findBasePort, repositoryRoot } from "@servemesh/envoy";
import { atMost, type Bar, type BenchResult, markdownTable, round } from "../report.js";
import { medianOf } from "../statistics.js";
import { serverPlans, startServer, type XdsServerProcess } from "./servers.js";
import { buildXdsTools } from "./tools.js";

const STREAMS = 1_000;
const ROUNDS = 3;
const CHANGES = 20;

/** Protocol and kind of change. */
const CELLS = ["sotw_route", "sotw_endpoint", "delta_route", "delta_endpoint"] as const;
type Cell = (typeof CELLS)[number];

/** What the load client prints; only what is used here. */
interface LoadFigures {
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly last_stream_p50_ms: number;
  readonly missed: number;
  readonly bytes_per_stream_change: number;
  readonly server_cpu_ms_per_change: number;
  readonly server_rss_mib: number;
  readonly stream_errors: number;
}

type Measured = Readonly<Record<"p50Ms" | "p99Ms" | "lastMs" | "bytes" | "cpuMs" | "rssMib", number>>;

/**
 * Our server beside go-control-plane, both kinds of its cache, with the same resources (100 clusters of 10 endpoints, one table of
 * 100 weighted routes) and the same load client: from a change to its arrival on each of 1,000 streams.
 */
export async function compareXds(): Promise<BenchResult> {
  const folder = join(repositoryRoot, "var/bench/xds");
  const data = join(folder, "data");
  mkdirSync(data, { recursive: true });
  process.stderr.write("building the load client and the peer\n");
  const tools = buildXdsTools(join(folder, "bin"));
  spawnSync(tools.peer, ["-dump", data]);
  const plans = serverPlans(tools.peer, data, await findBasePort(1, 20_000, 32_000));
  const servers: XdsServerProcess[] = [];
  try {
    for (const plan of plans) servers.push(await startServer(plan, folder));
    return report(await measureAll(tools.load, servers));
  } finally {
    for (const server of servers) await server.stop();
  }
}

/** Figures by cell and server: medians over interleaved rounds. */
async function measureAll(load: string, servers: readonly XdsServerProcess[]): Promise<ReadonlyMap<string, Measured>> {
  const rounds = new Map<string, LoadFigures[]>();
  for (let turn = 0; turn < ROUNDS; turn++) {
    for (const cell of CELLS) {
      for (const server of servers) {
        const key = `${cell} ${server.name}`;
        process.stderr.write(`round ${turn + 1} of ${ROUNDS}: ${key}\n`);
        rounds.set(key, [...(rounds.get(key) ?? []), await runLoad(load, server, cell)]);
      }
    }
  }
  return new Map([...rounds].map(([key, all]) => [key, mediansOf(all)]));
}

async function runLoad(load: string, server: XdsServerProcess, cell: Cell): Promise<LoadFigures> {
  const [mode = "", kind = ""] = cell.split("_");
  const { stdout } = await promisify(execFile)(load, [
    ...["-addr", server.adsAddress, "-n", String(STREAMS), "-mode", mode, "-changes", String(CHANGES)],
    ...["-expect", kind === "route" ? "rds" : "eds", "-trigger-url", `${server.changeUrl}?kind=${kind}`],
    ...["-server-pid", String(server.pid), "-label", server.name],
  ]);
  const figures = JSON.parse(stdout) as LoadFigures;
  if (figures.missed > 0 || figures.stream_errors > 0) {
    throw new Error(
      `${cell} of ${server.name}: ${figures.missed} changes missed, ${figures.stream_errors} streams broken`,
    );
  }
  return figures;
}

function mediansOf(all: readonly LoadFigures[]): Measured {
  const median = (figure: (figures: LoadFigures) => number) => medianOf(all.map(figure));
  return {
    p50Ms: median((figures) => figures.p50_ms),
    p99Ms: median((figures) => figures.p99_ms),
    lastMs: median((figures) => figures.last_stream_p50_ms),
    bytes: median((figures) => figures.bytes_per_stream_change),
    cpuMs: median((figures) => figures.server_cpu_ms_per_change),
    rssMib: median((figures) => figures.server_rss_mib),
  };
}

function report(measured: ReadonlyMap<string, Measured>): BenchResult {
  const of = (cell: Cell, server: string) => measured.get(`${cell} ${server}`) as Measured;
  const ratio = (ours: number, theirs: number) => `×${(ours / theirs).toFixed(2)}`;
  const bars: Bar[] = [];
  const rows = [["cell", "server", "p50", "p99", "last stream", "CPU per change", "bytes", "RSS"]];
  for (const cell of CELLS) {
    const ours = of(cell, "servemesh");
    const [snapshot, linear] = [of(cell, "snapshot"), of(cell, "linear")];
    for (const name of ["servemesh", "snapshot", "linear"]) {
      const figures = of(cell, name);
      rows.push([
        cell,
        name,
        ratio(figures.p50Ms, snapshot.p50Ms),
        ratio(figures.p99Ms, snapshot.p99Ms),
        ratio(figures.lastMs, snapshot.lastMs),
        ratio(figures.cpuMs, snapshot.cpuMs),
        ratio(figures.bytes, snapshot.bytes),
        `${figures.rssMib.toFixed(0)} MiB`,
      ]);
    }
    bars.push(
      atMost(`${cell}_p99_vs_snapshot`, ours.p99Ms / snapshot.p99Ms, 0.75),
      atMost(`${cell}_cpu_vs_snapshot`, ours.cpuMs / snapshot.cpuMs, 0.5),
      atMost(`${cell}_p50_vs_linear`, ours.p50Ms / linear.p50Ms, 1.4),
      atMost(`${cell}_cpu_vs_linear`, ours.cpuMs / linear.cpuMs, 1.1),
    );
  }
  console.log(markdownTable(rows));
  console.log(`${STREAMS} streams, ${ROUNDS} rounds of ${CHANGES} changes; ratios to the peer's SnapshotCache`);
  const figures = Object.fromEntries(
    CELLS.flatMap((cell) => [
      [`${cell}_p50_ms`, round(of(cell, "servemesh").p50Ms)],
      [`${cell}_cpu_ms`, round(of(cell, "servemesh").cpuMs)],
    ]),
  );
  return { bench: "xds", bars, figures };
}
