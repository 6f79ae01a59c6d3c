import type { status as GrpcStatus, ServerDuplexStream, ServiceDefinition } from "@grpc/grpc-js";
import {
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  LISTENER_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  RUNTIME_TYPE,
  SCOPE_TYPE,
  SECRET_TYPE,
  VIRTUAL_HOST_TYPE,
} from "../snapshot/resource-types.js";
import type { Protocol } from "./discovery-ask.js";

/** A discovery stream as bytes: requests are decoded and responses joined by the server itself. */
export type DiscoveryCall = ServerDuplexStream<Buffer, Buffer>;

/** Ends a stream with an error. */
export function failCall(call: DiscoveryCall, code: GrpcStatus, details: string): void {
  call.emit("error", { code, details });
}

/** What a method says about its streams. */
export interface DiscoveryMethod {
  readonly protocol: Protocol;
  /** The only type that it carries; undefined for ADS, which carries all. */
  readonly typeUrl: ResourceType | undefined;
}

/** The per-type services of Envoy's API, with the name that their methods share. */
const TYPE_SERVICES: Readonly<Record<ResourceType, readonly [service: string, noun: string]>> = {
  [CLUSTER_TYPE]: ["cluster.v3.ClusterDiscoveryService", "Clusters"],
  [ENDPOINT_TYPE]: ["endpoint.v3.EndpointDiscoveryService", "Endpoints"],
  [SECRET_TYPE]: ["secret.v3.SecretDiscoveryService", "Secrets"],
  [LISTENER_TYPE]: ["listener.v3.ListenerDiscoveryService", "Listeners"],
  [SCOPE_TYPE]: ["route.v3.ScopedRoutesDiscoveryService", "ScopedRoutes"],
  [ROUTE_TYPE]: ["route.v3.RouteDiscoveryService", "Routes"],
  [VIRTUAL_HOST_TYPE]: ["route.v3.VirtualHostDiscoveryService", "VirtualHosts"],
  [EXTENSION_TYPE]: ["extension.v3.ExtensionConfigDiscoveryService", "ExtensionConfigs"],
  [RUNTIME_TYPE]: ["runtime.v3.RuntimeDiscoveryService", "Runtime"],
};

const ADS = ["discovery.v3.AggregatedDiscoveryService", "AggregatedResources"] as const;

/** One service with both of its streaming methods. */
export interface DiscoveryService {
  readonly definition: ServiceDefinition;
  /** By the key of the method in the definition. */
  readonly methods: Readonly<Record<string, DiscoveryMethod>>;
}

/** ADS and the per-type services. The unary Fetch methods are for REST polling, which is not offered. */
export function discoveryServices(): DiscoveryService[] {
  const perType = Object.entries(TYPE_SERVICES).map(([typeUrl, [service, noun]]) =>
    discoveryService(service, noun, typeUrl as ResourceType),
  );
  return [discoveryService(...ADS, undefined), ...perType];
}

function discoveryService(service: string, noun: string, typeUrl: ResourceType | undefined): DiscoveryService {
  const stream = `Stream${noun}`;
  const delta = `Delta${noun}`;
  const both: DiscoveryService = {
    definition: { [stream]: bytesMethod(service, stream), [delta]: bytesMethod(service, delta) },
    methods: { [stream]: { protocol: "sotw", typeUrl }, [delta]: { protocol: "delta", typeUrl } },
  };
  if (typeUrl !== VIRTUAL_HOST_TYPE) return both;
  // Hosts that are asked for one by one exist in delta alone.
  return { definition: { [delta]: bytesMethod(service, delta) }, methods: { [delta]: { protocol: "delta", typeUrl } } };
}

const raw = (bytes: Buffer): Buffer => bytes;

function bytesMethod(service: string, method: string): ServiceDefinition[string] {
  return {
    path: `/envoy.service.${service}/${method}`,
    requestStream: true,
    responseStream: true,
    requestSerialize: raw,
    requestDeserialize: raw,
    responseSerialize: raw,
    responseDeserialize: raw,
  };
}
