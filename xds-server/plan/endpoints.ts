import { isIP } from "node:net";
import { type Replica, ReplicaState } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { Finding, RegistryState } from "../registry/state.js";
import type { Endpoint } from "./mesh-plan.js";

/** Ready endpoints by version reference (`ranker:41`). */
export type ReadyEndpoints = ReadonlyMap<string, readonly Endpoint[]>;

/**
 * Ready replicas as endpoints, sorted and without repeats. A replica that starts, drains or failed is no endpoint: Envoy
 * would still use the only one of a cluster, whatever its health says.
 */
export function readyEndpoints(state: RegistryState): { endpoints: ReadyEndpoints; findings: Finding[] } {
  const byVersion = new Map<string, Map<string, Endpoint>>();
  const findings: Finding[] = [];
  for (const { value: replica } of state.replicas.values()) {
    if (replica.state !== ReplicaState.REPLICA_STATE_READY) continue;
    const endpoint = parseEndpoint(replica.address);
    if (endpoint === undefined) {
      findings.push(badAddress(replica));
      continue;
    }
    const version = `${replica.model}:${replica.version}`;
    const known = byVersion.get(version) ?? new Map<string, Endpoint>();
    known.set(endpointKey(endpoint), endpoint);
    byVersion.set(version, known);
  }
  const endpoints = new Map([...byVersion].map(([version, known]) => [version, sortedEndpoints(known)]));
  return { endpoints, findings };
}

/** All endpoints of all versions, once each. */
export function unionOf(endpoints: ReadyEndpoints): readonly Endpoint[] {
  const all = new Map<string, Endpoint>();
  for (const list of endpoints.values()) for (const endpoint of list) all.set(endpointKey(endpoint), endpoint);
  return sortedEndpoints(all);
}

/** `127.0.0.1:19000` or `[::1]:19000`. Names are refused: endpoints that Envoy gets by EDS must be addresses. */
export function parseEndpoint(address: string): Endpoint | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([0-9]{1,5})$/.exec(address);
  const ip = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (ip === undefined || isIP(ip) === 0 || port < 1 || port > 65_535) return undefined;
  return { ip, port };
}

function endpointKey(endpoint: Endpoint): string {
  return `${endpoint.ip} ${endpoint.port}`;
}

function sortedEndpoints(known: ReadonlyMap<string, Endpoint>): Endpoint[] {
  return [...known].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, endpoint]) => endpoint);
}

function badAddress(replica: Replica): Finding {
  return {
    severity: "error",
    subject: `replicas/${replica.model}/${replica.version}/${replica.id}`,
    message: `address ${JSON.stringify(replica.address)} is not ip:port, so the replica gets no traffic; start the batcher with an IP address`,
  };
}
