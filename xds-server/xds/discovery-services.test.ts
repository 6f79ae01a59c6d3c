import { afterEach, describe, expect, it } from "vitest";
import {
  CLUSTER_TYPE,
  DELIVERY_ORDER,
  ENDPOINT_TYPE,
  LISTENER_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  VIRTUAL_HOST_TYPE,
} from "../snapshot/resource-types.js";
import { DiscoveryStream, type Served, serveXds } from "./discovery-client-fixture.js";
import { type DiscoveryMethod, discoveryServices } from "./discovery-services.js";
import { SHORT } from "./hand-driven-envoy-fixture.js";
import { World } from "./world-fixture.js";

/** What the services promise beside the conformance scenarios, on a real gRPC client. */
const PROTOCOLS = ["sotw", "delta"] as const;
const METHODS: (DiscoveryMethod & { title: string })[] = discoveryServices()
  .flatMap(({ methods }) => Object.values(methods))
  .map(({ protocol, typeUrl }) => ({
    protocol,
    typeUrl,
    title: `${protocol} ${typeUrl === undefined ? "ADS" : SHORT[typeUrl]}`,
  }));
const ADS = PROTOCOLS.map((protocol) => ({ protocol, typeUrl: undefined }));
const UNSERVED_TYPE = "type.googleapis.com/envoy.config.core.v3.Node";

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

async function serve(): Promise<Served> {
  const served = await serveXds();
  cleanUps.push(() => served.close());
  return served;
}

function open(served: Served, method: DiscoveryMethod, nodeId?: string): DiscoveryStream {
  const stream = new DiscoveryStream(served.port, method, nodeId);
  cleanUps.push(() => stream.close());
  return stream;
}

function everything(revision = "v1"): World {
  const world = new World();
  for (const type of DELIVERY_ORDER) world.set(type, ["A", "B"], revision);
  return world;
}

it("rule 1: the methods are those of Envoy's API", () => {
  const paths = discoveryServices().flatMap(({ definition }) => Object.values(definition).map(({ path }) => path));
  expect(paths.map((path) => path.replace("/envoy.service.", "")).sort()).toEqual([
    "cluster.v3.ClusterDiscoveryService/DeltaClusters",
    "cluster.v3.ClusterDiscoveryService/StreamClusters",
    "discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
    "discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
    "endpoint.v3.EndpointDiscoveryService/DeltaEndpoints",
    "endpoint.v3.EndpointDiscoveryService/StreamEndpoints",
    "extension.v3.ExtensionConfigDiscoveryService/DeltaExtensionConfigs",
    "extension.v3.ExtensionConfigDiscoveryService/StreamExtensionConfigs",
    "listener.v3.ListenerDiscoveryService/DeltaListeners",
    "listener.v3.ListenerDiscoveryService/StreamListeners",
    "route.v3.RouteDiscoveryService/DeltaRoutes",
    "route.v3.RouteDiscoveryService/StreamRoutes",
    "route.v3.ScopedRoutesDiscoveryService/DeltaScopedRoutes",
    "route.v3.ScopedRoutesDiscoveryService/StreamScopedRoutes",
    "route.v3.VirtualHostDiscoveryService/DeltaVirtualHosts",
    "runtime.v3.RuntimeDiscoveryService/DeltaRuntime",
    "runtime.v3.RuntimeDiscoveryService/StreamRuntime",
    "secret.v3.SecretDiscoveryService/DeltaSecrets",
    "secret.v3.SecretDiscoveryService/StreamSecrets",
  ]);
});

describe.each(ADS)("an aggregated stream by $protocol", (method) => {
  it("rule 1: needs a type_url", async () => {
    const stream = open(await serve(), method);
    stream.send({});
    expect(await stream.ended).toMatch(/^3 .*type_url is missing/);
  });

  it("rule 3: passes over a type that is not served, and goes on", async () => {
    const served = await serve();
    served.xds.setSnapshot(everything().snapshot());
    const stream = open(served, method);
    stream.send({ typeUrl: UNSERVED_TYPE });
    stream.subscribe(LISTENER_TYPE, ["A"]);
    expect(await stream.next()).toMatchObject({ typeUrl: LISTENER_TYPE, resources: ["A@v1"] });
  });

  it("rule 43: virtual hosts are not told as a whole to who names none", async () => {
    const served = await serve();
    served.xds.setSnapshot(everything().snapshot());
    const stream = open(served, method);
    stream.askForAll(VIRTUAL_HOST_TYPE);
    expect(await stream.next()).toMatchObject({ typeUrl: VIRTUAL_HOST_TYPE, resources: [] });
    stream.subscribe(VIRTUAL_HOST_TYPE, ["B"]);
    expect(await stream.next()).toMatchObject({ typeUrl: VIRTUAL_HOST_TYPE, resources: ["B@v1"] });
    stream.subscribe(VIRTUAL_HOST_TYPE, ["A"]);
    expect((await stream.next()).resources).toContain("A@v1");
  });

  it("rule 10: nonces are not used twice on a stream, over all types", async () => {
    const served = await serve();
    served.xds.setSnapshot(everything().snapshot());
    const stream = open(served, method);
    stream.askForAll(CLUSTER_TYPE);
    stream.subscribe(ENDPOINT_TYPE, ["A"]);
    stream.subscribe(ROUTE_TYPE, ["A"]);
    const nonces = [await stream.next(), await stream.next(), await stream.next()].map(({ nonce }) => nonce);
    expect(new Set(nonces).size).toBe(3);
  });

  it("rule 44: one type that is not answered does not hold up another", async () => {
    const served = await serve();
    served.xds.setSnapshot(everything().snapshot());
    const stream = open(served, method);
    stream.accepts = false;
    stream.askForAll(LISTENER_TYPE);
    await stream.next();
    stream.subscribe(ENDPOINT_TYPE, ["A"]);
    await stream.next();
    stream.ack(ENDPOINT_TYPE);
    served.xds.setSnapshot(everything("v2").snapshot());
    expect((await stream.next()).typeUrl).toBe(ENDPOINT_TYPE);
    stream.ack(LISTENER_TYPE);
    expect(await stream.next()).toMatchObject({ typeUrl: LISTENER_TYPE, resources: ["A@v2", "B@v2"] });
  });
});

describe.each(METHODS)("a stream of $title", (method) => {
  const type: ResourceType = method.typeUrl ?? ENDPOINT_TYPE;

  it("rule 2: is ended when its first request does not say who speaks", async () => {
    const stream = open(await serve(), method, "");
    stream.subscribe(type, ["A"]);
    expect(await stream.ended).toMatch(/^3 .*node\.id is missing/);
  });

  it("is ended by bytes that are no request", async () => {
    const stream = open(await serve(), method);
    stream.sendRaw(Buffer.from([0xff, 0xff, 0xff]));
    expect(await stream.ended).toMatch(/^3 /);
  });

  it("rules 4, 7: waits for the first whole state, and is told who answers", async () => {
    const served = await serve();
    const stream = open(served, method);
    stream.subscribe(type, ["A"]);
    await until(() => served.xds.status().length === 1);
    expect(stream.received).toEqual([]);
    served.xds.setSnapshot(everything().snapshot());
    expect(await stream.next()).toMatchObject({ resources: ["A@v1"], identifier: "servemesh" });
  });

  it("rule 14: a refused content is parked, shown, and left when it changes", async () => {
    const served = await serve();
    served.xds.setSnapshot(everything().snapshot());
    const stream = open(served, method);
    stream.subscribe(type, ["A"]);
    const { version } = await stream.next();
    await until(() => served.xds.status()[0]?.types[0]?.ackedVersion === version);
    stream.accepts = false;
    served.xds.setSnapshot(everything().set(type, ["A"], "bad").snapshot());
    expect((await stream.next()).resources).toEqual(["A@bad"]);
    stream.nack(type, "this is bad", version);
    await until(() => served.xds.findings().length === 1);
    expect(served.xds.findings()[0]?.message).toContain("this is bad");
    expect(await served.xds.whenSettled(10_000)).toEqual({ settled: true, unsettled: [] });
    // The same content once more: nothing. Another one: exactly one response.
    served.xds.setSnapshot(everything().set(type, ["A"], "bad").snapshot());
    served.xds.setSnapshot(everything().set(type, ["A"], "good").snapshot());
    expect((await stream.next()).resources).toEqual(["A@good"]);
    expect(served.xds.findings()).toEqual([]);
  });
});

describe.each(METHODS.filter(({ typeUrl }) => typeUrl !== undefined))("a per-type stream of $title", (method) => {
  const type = method.typeUrl as ResourceType;

  it("rule 1: takes its type with or without a type_url, and no other", async () => {
    const served = await serve();
    served.xds.setSnapshot(everything().snapshot());
    const stream = open(served, method);
    const names = method.protocol === "delta" ? { resourceNamesSubscribe: ["A"] } : { resourceNames: ["A"] };
    stream.send({ typeUrl: type, ...names });
    expect(await stream.next()).toMatchObject({ typeUrl: type, resources: ["A@v1"] });
    stream.send({ typeUrl: UNSERVED_TYPE });
    expect(await stream.ended).toMatch(/^3 .*type_url is not type\.googleapis\.com.*the only type of this method/);
  });
});

describe("one client with several streams", () => {
  it.each(PROTOCOLS)(
    "gets a %s stream for each cluster's endpoints, and is one node in the status",
    async (protocol) => {
      const served = await serve();
      served.xds.setSnapshot(everything().snapshot());
      const method = { protocol, typeUrl: ENDPOINT_TYPE } as const;
      const streams = ["A", "B"].map((name) => ({ name, stream: open(served, method) }));
      for (const { name, stream } of streams) {
        stream.subscribe(ENDPOINT_TYPE, [name]);
        expect((await stream.next()).resources).toEqual([`${name}@v1`]);
      }
      const status = served.xds.status();
      expect(status.map(({ nodeId, types }) => [nodeId, types.length])).toEqual([["client-1", 2]]);
      // One node id with different names (go-control-plane#426): each gets its own.
      served.xds.setSnapshot(everything("v2").snapshot());
      for (const { name, stream } of streams) expect((await stream.next()).resources).toEqual([`${name}@v2`]);
    },
  );

  it("a stream for one more cluster does not offer again what another refused", async () => {
    const served = await serve();
    served.xds.setSnapshot(everything().snapshot());
    const method = { protocol: "sotw", typeUrl: ENDPOINT_TYPE } as const;
    const first = open(served, method);
    first.accepts = false;
    first.subscribe(ENDPOINT_TYPE, ["A"]);
    await first.next();
    first.nack(ENDPOINT_TYPE, "no");
    await until(() => served.xds.findings().length === 1);
    const second = open(served, method);
    second.subscribe(ENDPOINT_TYPE, ["B"]);
    await second.next();
    expect(served.xds.findings()).toHaveLength(1);
    served.xds.setSnapshot(everything().set(ENDPOINT_TYPE, ["B"], "v2").snapshot());
    expect((await second.next()).resources).toEqual(["B@v2"]);
    expect(first.received).toHaveLength(1);
  });
});

async function until(isTrue: () => boolean): Promise<void> {
  for (let tries = 0; tries < 2_000 && !isTrue(); tries += 1) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(isTrue()).toBe(true);
}
