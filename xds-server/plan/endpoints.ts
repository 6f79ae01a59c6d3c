import { isIP } from "node:net";
import { isDeepStrictEqual } from "node:util";
import { type Replica, ReplicaState } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { type EntryChange, LayeredMap } from "../platform/layered-map.js";
import type { Finding, Revisioned } from "../registry/state.js";
import { type Groups, noGroups, regroup } from "./groups.js";
import type { Endpoint } from "./mesh-plan.js";

/** Ready endpoints by version reference (`ranker:41`). */
export type ReadyEndpoints = ReadonlyMap<string, readonly Endpoint[]>;

/** What the replicas of a registry state come to. */
export interface ReplicaView {
  /** By version reference. */
  readonly replicas: Groups<Replica>;
  /** A version without ready endpoints is absent; a list that did not change is the same object. */
  readonly endpoints: LayeredMap<readonly Endpoint[]>;
  /** Findings by version reference. */
  readonly troubled: LayeredMap<readonly Finding[]>;
}

export function noReplicas(): ReplicaView {
  return { replicas: noGroups(), endpoints: LayeredMap.over(new Map()), troubled: LayeredMap.over(new Map()) };
}

/**
 * Ready replicas as endpoints, sorted and without repeats. A replica that starts, drains or failed is no endpoint: Envoy
 * would still use the only one of a cluster, whatever its health says. Only versions with changed records are looked at.
 */
export function withReplicas(view: ReplicaView, changes: readonly EntryChange<Revisioned<Replica>>[]): ReplicaView {
  if (changes.length === 0) return view;
  const versionOf = ({ model, version }: Replica): string => `${model}:${version}`;
  const replicas = regroup(view.replicas, changes, versionOf);
  const records = changes.flatMap(({ before, after }) => [before, after].filter((record) => record !== undefined));
  const versions = new Set(records.map(({ value }) => versionOf(value)));
  const endpoints: [string, readonly Endpoint[] | undefined][] = [];
  const troubled: [string, readonly Finding[] | undefined][] = [];
  for (const version of versions) {
    const judged = judgeReplicas(replicas.get(version)?.values() ?? []);
    endpoints.push([version, sameOr(view.endpoints.get(version), judged.endpoints)]);
    troubled.push([version, sameOr(view.troubled.get(version), judged.findings)]);
  }
  return { replicas, endpoints: view.endpoints.with(endpoints), troubled: view.troubled.with(troubled) };
}

/** Nothing for an empty list, and the list before when this one is equal. */
function sameOr<T>(before: readonly T[] | undefined, now: readonly T[]): readonly T[] | undefined {
  if (now.length === 0) return undefined;
  return isDeepStrictEqual(before, now) ? before : now;
}

function judgeReplicas(replicas: Iterable<Replica>): { endpoints: Endpoint[]; findings: Finding[] } {
  const known = new Map<string, Endpoint>();
  const findings: Finding[] = [];
  for (const replica of replicas) {
    if (replica.state !== ReplicaState.REPLICA_STATE_READY) continue;
    const address = parseEndpoint(replica.address);
    if (address === undefined) {
      findings.push(badAddress(replica));
      continue;
    }
    const endpoint: Endpoint = replica.tls ? { ...address, tls: true } : address;
    known.set(endpointKey(endpoint), endpoint);
  }
  findings.sort((a, b) => (a.subject < b.subject ? -1 : 1));
  return { endpoints: sortedEndpoints(known), findings };
}

/** `127.0.0.1:19000` or `[::1]:19000`. Names are refused: endpoints that Envoy gets by EDS must be addresses. */
export function parseEndpoint(address: string): Endpoint | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([0-9]{1,5})$/.exec(address);
  const ip = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (ip === undefined || isIP(ip) === 0 || port < 1 || port > 65_535) return undefined;
  return { ip, port };
}

/** Identity of an endpoint, and what lists of them are sorted by. */
export function endpointKey(endpoint: Endpoint): string {
  return `${endpoint.ip} ${endpoint.port}${endpoint.tls ? " tls" : ""}`;
}

/** By their keys. */
export function sortedEndpoints(known: Iterable<readonly [string, Endpoint]>): Endpoint[] {
  return [...known].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, endpoint]) => endpoint);
}

function badAddress(replica: Replica): Finding {
  return {
    severity: "error",
    subject: `replicas/${replica.model}/${replica.version}/${replica.id}`,
    message: `address ${JSON.stringify(replica.address)} is not ip:port, so the replica gets no traffic; start the batcher with an IP address`,
  };
}
