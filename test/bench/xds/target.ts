/*
 * Our xDS server with the peer's resources, for the load client: ADS on one port, `POST /change?kind=route|endpoint` on another.
 * Usage: node target.js ADS_PORT CONTROL_PORT DATA_FOLDER
 */
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { Cluster } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import { ClusterLoadAssignment } from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/endpoint.js";
import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import { buildSnapshot, createLogger, type MeshResources, systemClock, XdsServer } from "@servemesh/xds-server";

/** Weights count from 1 to this and begin again, as the peer's do. */
const WEIGHT_MAX = 90;

/** Messages of one type as the peer dumps them: each behind its length as a varint. */
function readDump<M>(folder: string, file: string, codec: { decode(bytes: Uint8Array): M }): M[] {
  const bytes = readFileSync(join(folder, file));
  const messages: M[] = [];
  for (let position = 0; position < bytes.length; ) {
    let length = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[position++] as number;
      length += (byte & 127) * 2 ** shift;
      if (byte < 128) break;
    }
    messages.push(codec.decode(bytes.subarray(position, position + length)));
    position += length;
  }
  return messages;
}

function readResources(folder: string): MeshResources {
  return {
    clusters: readDump(folder, "cds.bin", Cluster),
    endpoints: readDump(folder, "eds.bin", ClusterLoadAssignment),
    listeners: readDump(folder, "lds.bin", Listener),
    routes: readDump(folder, "rds.bin", RouteConfiguration),
    extensions: [],
    scopes: [],
  };
}

/** The first route's split with another weight. */
function withRouteWeight(resources: MeshResources, weight: number): MeshResources {
  const [table] = structuredClone(resources.routes) as RouteConfiguration[];
  const action = table?.virtualHosts[0]?.routes[0]?.action;
  const split = action?.$case === "route" ? action.value.clusterSpecifier : undefined;
  if (table === undefined || split?.$case !== "weightedClusters") throw new Error("the data has no weighted route");
  const [first, second] = split.value.clusters;
  if (first !== undefined) first.weight = weight;
  if (second !== undefined) second.weight = 100 - weight;
  return { ...resources, routes: [table] };
}

/** The first endpoint of the first cluster with another weight. */
function withEndpointWeight(resources: MeshResources, weight: number): MeshResources {
  const [first, ...others] = resources.endpoints;
  const changed = structuredClone(first) as ClusterLoadAssignment;
  const endpoint = changed.endpoints[0]?.lbEndpoints[0];
  if (endpoint === undefined) throw new Error("the data has no endpoint");
  endpoint.loadBalancingWeight = weight;
  return { ...resources, endpoints: [changed, ...others] };
}

function main(): void {
  const [adsPort = "", controlPort = "", folder = ""] = process.argv.slice(2);
  let resources = readResources(folder);
  let snapshot = buildSnapshot(resources, undefined);
  const xds = new XdsServer({ clock: systemClock, logger: createLogger("warn") });
  xds.setSnapshot(snapshot);
  const ads = new Server({ "grpc.max_receive_message_length": 64 * 1024 * 1024, "grpc.max_send_message_length": -1 });
  xds.addTo(ads);
  ads.bindAsync(`127.0.0.1:${adsPort}`, ServerCredentials.createInsecure(), (error) => {
    if (error !== null) throw error;
  });
  let weight = 50;
  const control = createServer((request, response) => {
    const kind = new URL(request.url ?? "", "http://target").searchParams.get("kind");
    weight = (weight % WEIGHT_MAX) + 1;
    const change = kind === "route" ? withRouteWeight : withEndpointWeight;
    resources = change(resources, weight);
    // The peer starts its clock when its own resource is built and its cache is told.
    const startNs = BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e6));
    snapshot = buildSnapshot(resources, snapshot);
    xds.setSnapshot(snapshot);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ t0_ns: startNs.toString() }));
  });
  control.listen(Number(controlPort), "127.0.0.1");
}

main();
