import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findEnvoy } from "@servemesh/envoy";
import { eventually } from "../support/eventually.js";

const HTTP2 = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
const START_TIMEOUT_MS = 30_000;

/** A real Envoy that gets everything from one xDS server, by delta ADS. */
export interface EnvoyProcess {
  /** Parsed JSON of a path of the admin interface. */
  admin(path: string): Promise<unknown>;
  stop(): Promise<void>;
}

/** @param xdsAddress host:port */
export async function startEnvoy(xdsAddress: string, nodeId: string): Promise<EnvoyProcess> {
  const folder = mkdtempSync(join(tmpdir(), "servemesh-conformance-"));
  const configFile = join(folder, "bootstrap.json");
  // Envoy takes a free port and writes here which.
  const adminFile = join(folder, "admin-address");
  writeFileSync(configFile, JSON.stringify(bootstrap(xdsAddress, nodeId)));
  const flags = ["--config-path", configFile, "--admin-address-path", adminFile, "--disable-hot-restart"];
  const child = spawn(findEnvoy(), [...flags, "--concurrency", "1", "--log-level", "error"], { stdio: "ignore" });
  const ended = once(child, "close");
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  const stop = async (): Promise<void> => {
    process.off("exit", kill);
    kill();
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const address = await eventually("Envoy starts", () => readFileSync(adminFile, "utf8") || undefined, {
      timeoutMs: START_TIMEOUT_MS,
    });
    return { admin: async (path) => (await fetch(`http://${address}${path}`)).json(), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function bootstrap(xdsAddress: string, nodeId: string): object {
  const [host = "", port] = xdsAddress.split(":");
  const ads = { ads: {}, resource_api_version: "V3" };
  return {
    node: { id: nodeId, cluster: "conformance" },
    admin: { address: socketAddress("127.0.0.1", 0) },
    dynamic_resources: {
      ads_config: {
        api_type: "DELTA_GRPC",
        transport_api_version: "V3",
        grpc_services: [{ envoy_grpc: { cluster_name: "xds" } }],
      },
      cds_config: ads,
      lds_config: ads,
    },
    static_resources: {
      clusters: [
        {
          name: "xds",
          type: "STATIC",
          typed_extension_protocol_options: {
            [HTTP2]: { "@type": `type.googleapis.com/${HTTP2}`, explicit_http_config: { http2_protocol_options: {} } },
          },
          load_assignment: {
            cluster_name: "xds",
            endpoints: [{ lb_endpoints: [{ endpoint: { address: socketAddress(host, Number(port)) } }] }],
          },
        },
      ],
    },
  };
}

function socketAddress(address: string, port: number): object {
  return { socket_address: { address, port_value: port } };
}
