import { isIP } from "node:net";
import { controlPlaneTls, type SecretFiles } from "./bootstrap-tls.js";

/** What an Envoy of the mesh must know before it meets the control plane. */
export interface BootstrapOptions {
  /** Names this Envoy in the control plane's status. */
  readonly nodeId: string;
  /** `gateway` by default. */
  readonly role?: "gateway" | "sidecar";
  /** With the role they decide to which gateway record it belongs; none by default. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly adminPort: number;
  /** ADS of the control plane; an IP address or a name. */
  readonly controlPlane: { readonly host: string; readonly port: number };
  /** Of `writeMeshSecrets`; without them the connection is plain text, so the host must be loopback. */
  readonly secretFiles?: SecretFiles;
  /** Heap at which Envoy stops taking new requests. */
  readonly maxHeapBytes?: number;
  readonly maxDownstreamConnections?: number;
}

const CONTROL_PLANE = "control-plane";
/** As the control plane names it (xds-server/translate/names.ts). */
const RUNTIME_LAYER = "servemesh";
const DEFAULT_MAX_HEAP_BYTES = 1024 ** 3;
const DEFAULT_MAX_CONNECTIONS = 10_000;
const HTTP_PROTOCOL_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/**
 * The bootstrap as proto3 JSON, which Envoy reads from a `.json` file and refuses when a field is unknown. All else
 * (listeners, routes, clusters, the gate) comes by delta ADS.
 */
export function createBootstrap(options: BootstrapOptions): object {
  return {
    node: {
      id: options.nodeId,
      cluster: options.role ?? "gateway",
      metadata: { labels: options.labels ?? {} },
      // Envoy can do this and does not say it by itself: settings that run out, told by delta or by state of the world.
      client_features: ["xds.config.supports-resource-ttl", "xds.config.resource-in-sotw"],
    },
    // Loopback only: the admin interface can stop Envoy and shows its configuration.
    admin: { address: socketAddress("127.0.0.1", options.adminPort) },
    dynamic_resources: {
      ads_config: {
        api_type: "DELTA_GRPC",
        transport_api_version: "V3",
        // The node names all of Envoy's extensions, 61 KB; once per stream is enough.
        set_node_on_first_message_only: true,
        grpc_services: [
          {
            envoy_grpc: {
              cluster_name: CONTROL_PLANE,
              // By default Envoy waits up to 30 s between attempts; a restarted control plane is to be back within 1 s.
              retry_policy: { retry_back_off: { base_interval: "0.1s", max_interval: "1s" } },
            },
          },
        ],
      },
      cds_config: { ads: {}, resource_api_version: "V3" },
      lds_config: { ads: {}, resource_api_version: "V3" },
    },
    // Settings of the gateway record, over Envoy's own; last, so that nothing hides what an operator sees as set.
    layered_runtime: {
      layers: [
        {
          name: RUNTIME_LAYER,
          rtds_layer: { name: RUNTIME_LAYER, rtds_config: { ads: {}, resource_api_version: "V3" } },
        },
      ],
    },
    // Envoy tells once a second what became of its calls, per cluster: what it sees of replicas that hang or are gone.
    cluster_manager: {
      load_stats_config: {
        api_type: "GRPC",
        transport_api_version: "V3",
        grpc_services: [{ envoy_grpc: { cluster_name: CONTROL_PLANE } }],
      },
    },
    static_resources: { clusters: [controlPlaneCluster(options)] },
    overload_manager: overloadManager(options),
  };
}

function socketAddress(address: string, port: number): object {
  return { socket_address: { address, port_value: port } };
}

function controlPlaneCluster({ controlPlane: { host, port }, secretFiles }: BootstrapOptions): object {
  return {
    name: CONTROL_PLANE,
    type: isIP(host) === 0 ? "STRICT_DNS" : "STATIC",
    connect_timeout: "1s",
    typed_extension_protocol_options: {
      [HTTP_PROTOCOL_OPTIONS]: {
        "@type": `type.googleapis.com/${HTTP_PROTOCOL_OPTIONS}`,
        explicit_http_config: {
          // A control plane that hangs is noticed, although the stream is silent for hours.
          http2_protocol_options: { connection_keepalive: { interval: "10s", timeout: "5s" } },
        },
      },
    },
    load_assignment: {
      cluster_name: CONTROL_PLANE,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: socketAddress(host, port) } }] }],
    },
    ...(secretFiles === undefined ? {} : { transport_socket: controlPlaneTls(secretFiles) }),
  };
}

/** Sheds new work before the kernel or the allocator would end the process and everything in it. */
function overloadManager({ maxHeapBytes, maxDownstreamConnections }: BootstrapOptions): object {
  const monitor = (name: string, type: string, settings: object): object => ({
    name: `envoy.resource_monitors.${name}`,
    typed_config: { "@type": `type.googleapis.com/envoy.extensions.resource_monitors.${type}`, ...settings },
  });
  const heapAction = (action: string, threshold: number): object => ({
    name: `envoy.overload_actions.${action}`,
    triggers: [{ name: "envoy.resource_monitors.fixed_heap", threshold: { value: threshold } }],
  });
  return {
    refresh_interval: "0.25s",
    resource_monitors: [
      monitor("fixed_heap", "fixed_heap.v3.FixedHeapConfig", {
        max_heap_size_bytes: maxHeapBytes ?? DEFAULT_MAX_HEAP_BYTES,
      }),
      monitor("global_downstream_max_connections", "downstream_connections.v3.DownstreamConnectionsConfig", {
        max_active_downstream_connections: maxDownstreamConnections ?? DEFAULT_MAX_CONNECTIONS,
      }),
    ],
    actions: [
      heapAction("shrink_heap", 0.9),
      heapAction("stop_accepting_requests", 0.95),
      heapAction("stop_accepting_connections", 0.98),
    ],
  };
}
