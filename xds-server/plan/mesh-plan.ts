import type { Model } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { GateConfig } from "@servemesh/wasm-filters";
import type { Finding } from "../registry/state.js";

/**
 * What the mesh shall do, free of Envoy's words: registry → **plan** → translate → snapshot → xds. Immutable and sorted,
 * so that equal registry states give equal plans, byte for byte.
 */
export interface MeshPlan {
  /** Sorted by name. */
  readonly models: readonly ModelPlan[];
  /** Every version that a route may name, with or without endpoints; sorted by cluster name. */
  readonly clusters: readonly ClusterPlan[];
  /** Ready batchers for server-level calls (live, ready, metadata): all of them, or 64 of more. */
  readonly server: readonly Endpoint[];
  /** Groups of Envoys, sorted by name. Without any, no port opens. */
  readonly gateways: readonly GatewayPlan[];
  /** What the gate filter knows of models and tenants. */
  readonly gate: GateConfig;
  readonly findings: readonly Finding[];
}

export interface ModelPlan {
  readonly model: string;
  /** The record that this plan follows: today's, or the last good one while today's does not validate. */
  readonly record: Model;
  /** Longest time of a call, in ms. */
  readonly deadlineMs: number;
  /** Sorted by alias. */
  readonly aliases: readonly AliasPlan[];
  /** `ranker:41` style references: every version in stage staging or production; sorted. */
  readonly pinned: readonly RoutePlan[];
}

export interface AliasPlan {
  readonly alias: string;
  /** True while today's record is refused or waits for replicas, and what was allowed before stays in force. */
  readonly isLastGood: boolean;
  /** Undefined when the record is refused and nothing was allowed before. */
  readonly policy: AliasPolicy | undefined;
  readonly route: RoutePlan;
}

/** The allowed content of an alias record. All versions are references such as `ranker:41`. */
export interface AliasPolicy {
  /** Members with a weight above 0, as written in the record. */
  readonly split: readonly WeightedVersion[];
  /** Tried in this order. */
  readonly fallback: readonly string[];
  readonly shadow: string | undefined;
  /** At most the model's, in ms. */
  readonly deadlineMs: number;
}

export interface WeightedVersion {
  readonly version: string;
  readonly weight: number;
}

/** One value of the `x-servemesh-route` header and where it leads. */
export interface RoutePlan {
  /** `ranker/prod` or `ranker/41`. */
  readonly key: string;
  /** Versions of the first choice as the record has them, ready or not: `ranker:41`. */
  readonly first: readonly string[];
  /** Only clusters with ready endpoints; groups in the order in which they are tried. Empty: the route answers 503. */
  readonly groups: readonly GroupPlan[];
  readonly shadow: ShadowPlan | undefined;
  readonly deadlineMs: number;
}

export interface GroupPlan {
  readonly name: string;
  /** Never empty; weights are above 0. */
  readonly clusters: readonly WeightedCluster[];
}

export interface WeightedCluster {
  readonly cluster: string;
  readonly weight: number;
}

/** Mirrored copies. The gate names the cluster per request; the route only allows it and bounds its time. */
export interface ShadowPlan {
  readonly cluster: string;
  /** The copy's own limit in ms, longer than the caller's. */
  readonly timeoutMs: number;
}

export interface ClusterPlan {
  /** `model/ranker/41` */
  readonly name: string;
  /** `ranker:41` */
  readonly version: string;
  /** Ready replicas only. */
  readonly endpoints: readonly Endpoint[];
}

export interface Endpoint {
  /** IPv4 or IPv6 address without brackets. */
  readonly ip: string;
  readonly port: number;
  /** It takes mutual TLS alone; absent for plain text. */
  readonly tls?: true;
}

/** One group of Envoys: who belongs to it, its listeners, and what it is told of the mesh. */
export interface GatewayPlan {
  readonly name: string;
  readonly role: "gateway" | "sidecar";
  /** Labels that an Envoy must carry, all of them; sorted by key. */
  readonly labels: readonly (readonly [key: string, value: string])[];
  /** The only models that it learns of, sorted; undefined for all. */
  readonly models: readonly string[] | undefined;
  readonly address: string;
  /** 0 means no plain-text listener. */
  readonly httpPort: number;
  readonly tls: TlsPlan | undefined;
  /** How its Envoys prove to batchers who they are; without it they reach none that speaks TLS. */
  readonly mesh: MeshFilesPlan | undefined;
  /** Largest request body at every door, in bytes. */
  readonly maxRequestBytes: number;
  /** Settings of Envoy's runtime; sorted by key. */
  readonly runtime: readonly (readonly [key: string, value: string])[];
  /** How long these count for an Envoy that hears nothing of us; undefined for ever. */
  readonly runtimeTtlMs: number | undefined;
}

/** Files of the group's identity in the mesh, on the control plane's machine. */
export interface MeshFilesPlan {
  readonly certificateFile: string;
  readonly privateKeyFile: string;
  /** Issuers of batchers' certificates. */
  readonly authoritiesFile: string;
}

export interface TlsPlan {
  readonly port: number;
  readonly certificateFile: string;
  readonly privateKeyFile: string;
}
