import { Cluster, Cluster_DiscoveryType } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import { ApiVersion, ConfigSource } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/config_source.js";
import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { Router } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/http/router/v3/router.js";
import { HttpConnectionManager } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.js";
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually } from "../support/eventually.js";
import { type EnvoyProcess, startEnvoy } from "./envoy-process.js";
import { field, type NamedResource, SuiteClient } from "./suite-client.js";
import { TargetProcess } from "./target-process.js";

const NODE = "test-id";
const CDS = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const LDS = "type.googleapis.com/envoy.config.listener.v3.Listener";
const RDS = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
const EDS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
const PATIENCE_MS = 30_000;

const cleanUps: (() => Promise<void> | void)[] = [];
let suite: SuiteClient;
let envoy: EnvoyProcess;

beforeEach(async () => {
  const target = new TargetProcess("--xds-port", "0", "--adapter-port", "0");
  cleanUps.push(() => target.kill());
  const { xds, adapter } = await target.addresses();
  suite = new SuiteClient(adapter, NODE);
  cleanUps.push(() => suite.close());
  envoy = await startEnvoy(xds, NODE);
  cleanUps.push(() => envoy.stop());
});

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

const named = (typeUrl: string, ...names: string[]): NamedResource[] =>
  names.map((name) => ({ typeUrl, value: field(1, name) }));

const ads = (): ConfigSource =>
  ConfigSource.fromPartial({
    configSourceSpecifier: { $case: "ads", value: {} },
    resourceApiVersion: ApiVersion.V3,
  });

function packed(type: string, bytes: Uint8Array) {
  return {
    $case: "typedConfig" as const,
    value: { typeUrl: `type.googleapis.com/${type}`, value: Buffer.from(bytes) },
  };
}

/** Makes Envoy ask for the endpoint list "list". */
function clusterByEds(): NamedResource {
  const cluster = Cluster.fromPartial({
    name: "by-eds",
    clusterDiscoveryType: { $case: "type", value: Cluster_DiscoveryType.EDS },
    edsClusterConfig: { edsConfig: ads(), serviceName: "list" },
  });
  return { typeUrl: CDS, value: Cluster.encode(cluster).finish() };
}

/** Makes Envoy ask for the route table "table". */
function listenerByRds(): NamedResource {
  const manager = HttpConnectionManager.fromPartial({
    statPrefix: "by-rds",
    routeSpecifier: { $case: "rds", value: { configSource: ads(), routeConfigName: "table" } },
    httpFilters: [{ name: "router", configType: packed(Router.$type, Router.encode(Router.fromPartial({})).finish()) }],
  });
  const filter = packed(HttpConnectionManager.$type, HttpConnectionManager.encode(manager).finish());
  const listener = Listener.fromPartial({
    name: "by-rds",
    address: {
      address: {
        $case: "socketAddress",
        value: { address: "127.0.0.1", portSpecifier: { $case: "portValue", value: 0 } },
      },
    },
    filterChains: [{ filters: [{ name: "http", configType: filter }] }],
  });
  return { typeUrl: LDS, value: Listener.encode(listener).finish() };
}

/** The parts of a config dump that are looked at here. */
interface Dump {
  readonly configs: readonly {
    readonly dynamic_active_clusters?: readonly { version_info: string; cluster: { name: string } }[];
    readonly dynamic_listeners?: readonly { name: string; active_state?: { version_info: string } }[];
    readonly dynamic_route_configs?: readonly { version_info: string; route_config: { name: string } }[];
    readonly dynamic_endpoint_configs?: readonly {
      endpoint_config: { cluster_name: string; policy?: { overprovisioning_factor?: number } };
    }[];
  }[];
}

/** `name@version` of all that Envoy uses; of endpoint lists, which have no version there, the overprovisioning in percent. */
async function inUse(): Promise<string[]> {
  const { configs } = (await envoy.admin("/config_dump?include_eds")) as Dump;
  const texts = configs.flatMap((config) => [
    ...(config.dynamic_active_clusters ?? []).map((entry) => `${entry.cluster.name}@${entry.version_info}`),
    // One that was removed stays listed, without this state, until its connections are drained.
    ...(config.dynamic_listeners ?? []).flatMap(({ name, active_state: active }) =>
      active === undefined ? [] : [`${name}@${active.version_info}`],
    ),
    ...(config.dynamic_route_configs ?? []).map((entry) => `${entry.route_config.name}@${entry.version_info}`),
    ...(config.dynamic_endpoint_configs ?? [])
      .filter((entry) => entry.endpoint_config.cluster_name === "list")
      .map((entry) => `list@${entry.endpoint_config.policy?.overprovisioning_factor} %`),
  ]);
  return texts.sort();
}

async function untilInUse(expected: readonly string[]): Promise<void> {
  const wanted = [...expected].sort().join();
  let last = "";
  const look = async (): Promise<true | undefined> => {
    last = (await inUse()).join();
    return last === wanted ? true : undefined;
  };
  await eventually("Envoy uses what was set", look, { timeoutMs: PATIENCE_MS }).catch((error: unknown) => {
    throw new Error(`Envoy uses ${last}, not ${wanted}`, { cause: error });
  });
}

it("a real Envoy takes what the target completes, adds and changes", async () => {
  const given = [...named(CDS, "A"), clusterByEds(), ...named(LDS, "D", "E"), listenerByRds()];
  await suite.setState("1", [...given, ...named(RDS, "table"), ...named(EDS, "list")]);
  await untilInUse(["A@1", "by-eds@1", "D@1", "E@1", "by-rds@1", "table@1", "list@140 %"]);

  const ask = [
    ["UpdateResource", CDS, "A"],
    ["UpdateResource", LDS, "D"],
    ["UpdateResource", RDS, "table"],
    ["UpdateResource", EDS, "list"],
    ["AddResource", CDS, "B"],
    ["RemoveResource", LDS, "E"],
  ] as const;
  for (const [method, typeUrl, name] of ask) await suite.change(method, typeUrl, name, "2");
  await untilInUse(["A@2", "B@2", "by-eds@1", "D@2", "by-rds@1", "table@2", "list@141 %"]);

  const { stats } = (await envoy.admin("/stats?filter=update_rejected&format=json")) as {
    stats: readonly { readonly name: string; readonly value: number }[];
  };
  expect(stats.map(({ name }) => name)).toContain("cluster_manager.cds.update_rejected");
  expect(stats.filter(({ value }) => value > 0)).toEqual([]);
});
