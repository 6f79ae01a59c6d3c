import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** A stuck test must not leave its Envoy behind, and no test takes as long. */
const LIFETIME_SECONDS = 600;

/** Path of the Envoy binary: `ENVOY_BIN`, else the one in the set-up's .venv; undefined when there is none. */
export function envoyBinary(): string | undefined {
  const fromEnvironment = process.env.ENVOY_BIN;
  if (fromEnvironment !== undefined) return fromEnvironment;
  const root = fileURLToPath(new URL("../../", import.meta.url));
  return ["3.11", "3.12"]
    .map((version) => join(root, `.venv/lib/python${version}/site-packages/envoy/_bin/envoy`))
    .find((path) => existsSync(path));
}

/** Forms of ADS that Envoy speaks: state of the world, and delta. */
export type AdsApiType = "GRPC" | "DELTA_GRPC";

export interface EnvoySettings {
  readonly binary: string;
  readonly adsPort: number;
  readonly adminPort: number;
  readonly nodeId: string;
  /** The cluster of its node; `gateway` by default. */
  readonly role?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly apiType: AdsApiType;
  /** Whether it reports its load to the ADS port. */
  readonly reportsLoad?: boolean;
  /** Name of a layer of its runtime that it asks for. */
  readonly runtimeLayer?: string;
}

export interface RunningEnvoy {
  /** Value of one counter or gauge of the admin interface. */
  stat(name: string): Promise<number>;
  /** Final value of each key of its runtime that any layer sets. */
  runtime(): Promise<Readonly<Record<string, string>>>;
  /** Last lines that Envoy wrote. */
  log(): string;
  stop(): Promise<void>;
}

/** Starts an Envoy that gets everything by ADS from a port of this machine. */
export function startEnvoy(settings: EnvoySettings): RunningEnvoy {
  const dir = mkdtempSync(join(tmpdir(), "servemesh-envoy-"));
  const bootstrap = join(dir, "bootstrap.json");
  writeFileSync(bootstrap, JSON.stringify(bootstrapOf(settings)));
  const flags = ["--disable-hot-restart", "--concurrency", "1", "-l", "warning", "--file-flush-interval-msec", "50"];
  const child = spawn(
    "timeout",
    ["--signal=KILL", String(LIFETIME_SECONDS), settings.binary, ...flags, "-c", bootstrap],
    {
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  const lines: string[] = [];
  child.stderr.on("data", (chunk: Buffer) => {
    lines.push(chunk.toString());
    lines.splice(0, lines.length - 50);
  });
  const stopOnExit = (): boolean => child.kill("SIGTERM");
  process.once("exit", stopOnExit);
  return {
    stat: (name) => readStat(settings.adminPort, name),
    runtime: () => readRuntime(settings.adminPort),
    log: () => lines.join(""),
    stop: async () => {
      process.off("exit", stopOnExit);
      await terminate(child);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function terminate(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await gone;
}

async function readStat(adminPort: number, name: string): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${adminPort}/stats?filter=^${encodeURIComponent(name)}$`);
  const value = /: ([0-9]+)/.exec(await response.text())?.[1];
  if (value === undefined) throw new Error(`Envoy has no statistic ${name}`);
  return Number(value);
}

async function readRuntime(adminPort: number): Promise<Record<string, string>> {
  const response = await fetch(`http://127.0.0.1:${adminPort}/runtime`);
  const { entries } = (await response.json()) as { entries: Record<string, { final_value: string }> };
  return Object.fromEntries(Object.entries(entries).map(([key, entry]) => [key, entry.final_value]));
}

const LOAD_REPORTS = {
  load_stats_config: {
    api_type: "GRPC",
    transport_api_version: "V3",
    grpc_services: [{ envoy_grpc: { cluster_name: "xds" } }],
  },
};

function bootstrapOf({
  adsPort,
  adminPort,
  nodeId,
  role,
  labels,
  apiType,
  reportsLoad,
  runtimeLayer,
}: EnvoySettings): object {
  const address = (port: number): object => ({ socket_address: { address: "127.0.0.1", port_value: port } });
  const ads = { ads: {}, resource_api_version: "V3" };
  return {
    node: {
      id: nodeId,
      cluster: role ?? "gateway",
      metadata: { labels: labels ?? {} },
      client_features: ["xds.config.supports-resource-ttl", "xds.config.resource-in-sotw"],
    },
    admin: { address: address(adminPort) },
    dynamic_resources: {
      cds_config: ads,
      lds_config: ads,
      ads_config: {
        api_type: apiType,
        transport_api_version: "V3",
        set_node_on_first_message_only: true,
        grpc_services: [
          {
            envoy_grpc: {
              cluster_name: "xds",
              retry_policy: { retry_back_off: { base_interval: "0.1s", max_interval: "1s" } },
            },
          },
        ],
      },
    },
    ...(runtimeLayer === undefined
      ? {}
      : {
          layered_runtime: {
            layers: [{ name: runtimeLayer, rtds_layer: { name: runtimeLayer, rtds_config: ads } }],
          },
        }),
    ...(reportsLoad === true ? { cluster_manager: LOAD_REPORTS } : {}),
    static_resources: {
      clusters: [
        {
          name: "xds",
          type: "STATIC",
          connect_timeout: "1s",
          typed_extension_protocol_options: {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
              "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
              explicit_http_config: { http2_protocol_options: {} },
            },
          },
          load_assignment: {
            cluster_name: "xds",
            endpoints: [{ lb_endpoints: [{ endpoint: { address: address(adsPort) } }] }],
          },
        },
      ],
    },
  };
}
