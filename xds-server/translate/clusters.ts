import {
  Cluster,
  Cluster_DiscoveryType,
  Cluster_LbPolicy,
} from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import { ClusterLoadAssignment } from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/endpoint.js";
import { HeaderMutation } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/http/header_mutation/v3/header_mutation.js";
import { UpstreamCodec } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/http/upstream_codec/v3/upstream_codec.js";
import { HttpProtocolOptions } from "@servemesh/proto/gen/envoy/envoy/extensions/upstreams/http/v3/http_protocol_options.js";
import { H_VERSION } from "@servemesh/proto/names";
import type { ClusterPlan, Endpoint, MeshPlan } from "../plan/mesh-plan.js";
import { modelOf } from "../plan/names.js";
import { packAny } from "./any.js";
import { setMutation } from "./headers.js";
import { batcherTls, MATCH_METADATA, MTLS_MATCH } from "./mesh-tls.js";
import { SERVER_CLUSTER } from "./names.js";
import { haveSameNames, translateEach } from "./reuse.js";
import { adsSource, duration } from "./sources.js";

const CONNECT_TIMEOUT_MS = 1_000;
/** The batcher's queue is the limit that answers well (429 and a fallback); Envoy's own only stops a flood. */
const REQUESTS_MAX = 65_536;
const CONNECTIONS_MAX = 1_024;
/** Envoy's default of 3 would cut off the fallback exactly when many are refused. */
const RETRIES_MAX = 4_096;

/**
 * @param trustDomain of the identity of the Envoys that get them; undefined when they have none, and reach no batcher that
 *   speaks TLS
 */
export function translateClusters(
  plan: MeshPlan,
  trustDomain: string | undefined,
  previous: PreviousClusters | undefined,
): readonly Cluster[] {
  const before = previous && { items: previous.plan.clusters, results: previous.resources.clusters };
  // A cluster does not say who its endpoints are, so it stays as they come and go.
  if (before !== undefined && haveSameNames(before.items, plan.clusters, ({ name }) => name)) return before.results;
  const server = before?.results.at(-1) ?? batcherCluster(SERVER_CLUSTER, undefined, trustDomain);
  const make = ({ name, version }: ClusterPlan): Cluster => batcherCluster(name, version, trustDomain);
  return translateEach(plan.clusters, make, server, before);
}

/** @param trustDomain as for clusters; without one, endpoints that speak TLS are left out */
export function translateEndpoints(
  plan: MeshPlan,
  trustDomain: string | undefined,
  previous: PreviousClusters | undefined,
): readonly ClusterLoadAssignment[] {
  const before = previous && { items: previous.plan.clusters, results: previous.resources.endpoints };
  const isSameServer = previous?.plan.server === plan.server;
  if (isSameServer && before?.items === plan.clusters) return before.results;
  const reachable = (endpoints: readonly Endpoint[]): readonly Endpoint[] =>
    trustDomain === undefined ? endpoints.filter(({ tls }) => tls !== true) : endpoints;
  const make = (name: string, endpoints: readonly Endpoint[]) => loadAssignment(name, reachable(endpoints));
  const server = (isSameServer ? before?.results.at(-1) : undefined) ?? make(SERVER_CLUSTER, plan.server);
  return translateEach(plan.clusters, ({ name, endpoints }) => make(name, endpoints), server, before);
}

/** The part of a translation that these lists are made from and taken over from; the server's entry is always the last. */
interface PreviousClusters {
  readonly plan: MeshPlan;
  readonly resources: { readonly clusters: readonly Cluster[]; readonly endpoints: readonly ClusterLoadAssignment[] };
}

/** @param version sent to the batcher as `x-servemesh-version`; it holds for split, fallback and mirror alike */
function batcherCluster(name: string, version: string | undefined, trustDomain: string | undefined): Cluster {
  const model = version === undefined ? undefined : modelOf(version);
  return Cluster.fromPartial({
    name,
    clusterDiscoveryType: { $case: "type", value: Cluster_DiscoveryType.EDS },
    edsClusterConfig: { edsConfig: adsSource() },
    connectTimeout: duration(CONNECT_TIMEOUT_MS),
    lbPolicy: Cluster_LbPolicy.LEAST_REQUEST,
    circuitBreakers: {
      thresholds: [
        {
          maxConnections: CONNECTIONS_MAX,
          maxPendingRequests: REQUESTS_MAX,
          maxRequests: REQUESTS_MAX,
          maxRetries: RETRIES_MAX,
        },
      ],
    },
    // Endpoints come and go by their own reports; panic mode would send calls to ejected ones.
    commonLbConfig: { healthyPanicThreshold: { value: 0 } },
    outlierDetection: outlierDetection(),
    transportSocketMatches: trustDomain === undefined ? [] : [batcherTls(trustDomain, model)],
    typedExtensionProtocolOptions: {
      "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": packAny(HttpProtocolOptions, http2Options(version)),
    },
  });
}

/**
 * Only what happens on the wire ejects a replica (refused or broken connections). Its answers must not: a caller with an
 * impossible deadline or a bad input would take a healthy replica away from everybody.
 */
function outlierDetection() {
  return {
    splitExternalLocalOriginErrors: true,
    consecutiveLocalOriginFailure: 3,
    enforcingConsecutiveLocalOriginFailure: 100,
    enforcingLocalOriginSuccessRate: 0,
    enforcingConsecutive5xx: 0,
    enforcingConsecutiveGatewayFailure: 0,
    enforcingSuccessRate: 0,
    interval: duration(1_000),
    baseEjectionTime: duration(1_000),
    maxEjectionTime: duration(10_000),
    maxEjectionPercent: 50,
  };
}

function http2Options(version: string | undefined): HttpProtocolOptions {
  return HttpProtocolOptions.fromPartial({
    upstreamProtocolOptions: {
      $case: "explicitHttpConfig",
      value: {
        protocolConfig: {
          $case: "http2ProtocolOptions",
          // Finds a peer that vanished without a reset; the batcher is one hop away.
          value: { connectionKeepalive: { interval: duration(5_000), timeout: duration(2_000) } },
        },
      },
    },
    httpFilters:
      version === undefined
        ? []
        : [
            {
              name: "envoy.filters.http.header_mutation",
              configType: {
                $case: "typedConfig",
                value: packAny(
                  HeaderMutation,
                  HeaderMutation.fromPartial({ mutations: { requestMutations: [setMutation(H_VERSION, version)] } }),
                ),
              },
            },
            {
              name: "envoy.filters.http.upstream_codec",
              configType: { $case: "typedConfig", value: packAny(UpstreamCodec, UpstreamCodec.fromPartial({})) },
            },
          ],
  });
}

function loadAssignment(clusterName: string, endpoints: readonly Endpoint[]): ClusterLoadAssignment {
  const lbEndpoints = endpoints.map(({ ip, port, tls }) => ({
    ...(tls === true ? { metadata: { filterMetadata: { [MATCH_METADATA]: MTLS_MATCH } } } : {}),
    hostIdentifier: {
      $case: "endpoint" as const,
      value: {
        address: {
          address: {
            $case: "socketAddress" as const,
            value: { address: ip, portSpecifier: { $case: "portValue" as const, value: port } },
          },
        },
      },
    },
  }));
  return ClusterLoadAssignment.fromPartial({
    clusterName,
    endpoints: lbEndpoints.length === 0 ? [] : [{ lbEndpoints }],
  });
}
