import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findEnvoy } from "@servemesh/envoy";
import { eventually } from "../support/eventually.js";
import { startLogged } from "./logged-process.js";

/** An Envoy that only passes on. */
export interface BareEnvoy {
  readonly pid: number;
  /** host:port of its door. */
  readonly address: string;
  stop(): Promise<void>;
}

/**
 * Starts an Envoy with nothing but a listener, a router and one HTTP/2 upstream: what any gateway built on Envoy costs on this
 * machine, so that the mesh's figures can be told from the machine's.
 * @param ports two free ones: its door and its admin interface
 */
export async function startBareEnvoy(
  folder: string,
  ports: { readonly door: number; readonly admin: number },
  upstreamAddress: string,
): Promise<BareEnvoy> {
  mkdirSync(folder, { recursive: true });
  const configFile = join(folder, "bare-envoy.json");
  writeFileSync(configFile, JSON.stringify(configuration(ports, upstreamAddress)));
  const flags = ["--config-path", configFile, "--disable-hot-restart", "--concurrency", "2", "--log-level", "warning"];
  const envoy = startLogged(findEnvoy(), flags, join(folder, "bare-envoy.log"));
  await eventually("a bare Envoy is ready", () => isReady(ports.admin), { timeoutMs: 20_000 });
  return { pid: envoy.pid, address: `127.0.0.1:${ports.door}`, stop: () => envoy.stop("SIGTERM") };
}

async function isReady(adminPort: number): Promise<true | undefined> {
  const response = await fetch(`http://127.0.0.1:${adminPort}/ready`);
  await response.arrayBuffer();
  return response.ok ? true : undefined;
}

function configuration(ports: { readonly door: number; readonly admin: number }, upstreamAddress: string): object {
  const [host, port] = upstreamAddress.split(":");
  const http2 = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
  const manager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
  return {
    admin: { address: socketAddress("127.0.0.1", ports.admin) },
    static_resources: {
      listeners: [
        {
          name: "bare",
          address: socketAddress("127.0.0.1", ports.door),
          filter_chains: [
            {
              filters: [
                {
                  name: "envoy.filters.network.http_connection_manager",
                  typed_config: {
                    "@type": `type.googleapis.com/${manager}`,
                    stat_prefix: "bare",
                    http_filters: [
                      {
                        name: "envoy.filters.http.router",
                        typed_config: { "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" },
                      },
                    ],
                    route_config: {
                      virtual_hosts: [
                        {
                          name: "all",
                          domains: ["*"],
                          routes: [{ match: { prefix: "/" }, route: { cluster: "upstream" } }],
                        },
                      ],
                    },
                  },
                },
              ],
            },
          ],
        },
      ],
      clusters: [
        {
          name: "upstream",
          type: "STATIC",
          connect_timeout: "1s",
          typed_extension_protocol_options: {
            [http2]: {
              "@type": `type.googleapis.com/${http2}`,
              explicit_http_config: { http2_protocol_options: {} },
            },
          },
          load_assignment: {
            cluster_name: "upstream",
            endpoints: [{ lb_endpoints: [{ endpoint: { address: socketAddress(host ?? "", Number(port)) } }] }],
          },
        },
      ],
    },
  };
}

function socketAddress(address: string, port: number): object {
  return { socket_address: { address, port_value: port } };
}
