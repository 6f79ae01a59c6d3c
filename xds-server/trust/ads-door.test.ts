import { type ClientDuplexStream, credentials, Server, type ServiceError, status } from "@grpc/grpc-js";
import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { AggregatedDiscoveryServiceClient } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/ads.js";
import {
  DeltaDiscoveryRequest,
  type DeltaDiscoveryResponse,
} from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import {
  LoadReportingServiceClient,
  LoadStatsRequest,
} from "@servemesh/proto/gen/envoy/envoy/service/load_stats/v3/lrs.js";
import { ReplicaServiceClient } from "@servemesh/proto/gen/mesh/servemesh/control/v1/replica.js";
import type { MeshIdentity } from "@servemesh/proto/identity";
import { CHANNEL_OPTIONS, MeshCredentials } from "@servemesh/proto/mesh-credentials";
import { TestAuthority, type TestIdentity, TestMeshFolder } from "@servemesh/proto/testing/mesh-certificates";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ControlPlane } from "../control-plane.js";
import { ControlPlaneFixture, registerRanker } from "../control-plane-fixture.js";
import { ManualClock } from "../platform/manual-clock.js";
import { LISTENER_TYPE } from "../snapshot/resource-types.js";
import { LoadReports } from "../telemetry/load-reports.js";
import { LrsServer } from "../xds/lrs-server.js";
import { meshDoor } from "./ads-door.js";

const silent = pino({ level: "silent" });
let authority: TestAuthority;
let fixture: ControlPlaneFixture;
const cleanUps: (() => void)[] = [];

beforeEach(async () => {
  authority = await TestAuthority.create();
  fixture = new ControlPlaneFixture();
});

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
  await fixture.cleanUp();
});

function folderOf(identity: TestIdentity): TestMeshFolder {
  const folder = new TestMeshFolder().write(identity, authority.pem);
  cleanUps.push(() => folder.remove());
  return folder;
}

async function doorFiles(uri = "spiffe://mesh/control-plane") {
  const { certificate, privateKey, authorities } = folderOf(await authority.issue([uri]));
  return { certificate, privateKey, clientAuthorities: authorities };
}

/** Arguments of a gRPC client that proves to be one part of the mesh. */
async function clientOf(uri: string, address: string) {
  const own = new MeshCredentials(folderOf(await authority.issue([uri])).files, {
    wallMs: () => Date.now(),
    schedule: () => () => undefined,
    logger: silent,
  });
  const isControlPlane = ({ kind }: MeshIdentity): boolean => kind === "control-plane";
  const options = { ...CHANNEL_OPTIONS, "grpc.use_local_subchannel_pool": 1 };
  return [address, own.channelCredentials(isControlPlane), options] as const;
}

/** @returns what came first: an answer, or how the stream ended */
function firstOf<Ask, Answer>(call: ClientDuplexStream<Ask, Answer>, ask: Ask): Promise<Answer | string> {
  cleanUps.push(() => call.cancel());
  return new Promise((resolve) => {
    call.on("data", resolve);
    call.on("error", (error: ServiceError) => resolve(`${status[error.code]}: ${error.details}`));
    call.write(ask);
  });
}

/** Ports of the listeners in a response: 8080 is the group default's, 8081 that of eu. */
function portsIn({ resources }: DeltaDiscoveryResponse): (number | undefined)[] {
  return resources.map(({ resource }) => {
    const address = Listener.decode(resource?.value ?? new Uint8Array()).address?.address;
    const port = address?.$case === "socketAddress" ? address.value.portSpecifier : undefined;
    return port?.$case === "portValue" ? port.value : undefined;
  });
}

async function startPlane(): Promise<ControlPlane> {
  const plane = await fixture.start({ tls: await doorFiles(), batcherRanges: ["10.1.0.0/16"] });
  const admin = fixture.admin(plane);
  await registerRanker(admin);
  await admin.putGateway({
    gateway: { name: "eu", httpAddress: "127.0.0.1", httpPort: 8081, labels: { region: "eu" } },
  });
  await plane.whenSettled(1_000);
  return plane;
}

describe("the ADS port with mutual TLS", () => {
  async function listenersOf(plane: ControlPlane, uri: string, node: { id: string; cluster: string; region?: string }) {
    const client = new AggregatedDiscoveryServiceClient(...(await clientOf(uri, plane.adsAddress)));
    cleanUps.push(() => client.close());
    const { id, cluster, region } = node;
    const metadata = region === undefined ? {} : { metadata: { labels: { region } } };
    const ask = DeltaDiscoveryRequest.fromPartial({ node: { id, cluster, ...metadata }, typeUrl: LISTENER_TYPE });
    const answer = await firstOf(client.deltaAggregatedResources(), ask);
    return typeof answer === "string" ? answer : portsIn(answer);
  }

  it("tells an Envoy what its group holds when its certificate names its node id", async () => {
    const plane = await startPlane();
    const node = { id: "edge-1", cluster: "gateway" };
    expect(await listenersOf(plane, "spiffe://mesh/gateway/edge-1", node)).toEqual([8080]);
    expect(plane.nodes().map(({ nodeId }) => nodeId)).toEqual(["edge-1"]);
  });

  it("refuses an Envoy that says it is another, on ADS and on load reports", async () => {
    const plane = await startPlane();
    const uri = "spiffe://mesh/gateway/edge-2";
    const words =
      'PERMISSION_DENIED: node "edge-1" of role "gateway" may not connect: its certificate is for spiffe://mesh/gateway/edge-2; give it one for spiffe://mesh/gateway/edge-1, or for the group of its gateway record';
    expect(await listenersOf(plane, uri, { id: "edge-1", cluster: "gateway" })).toBe(words);
    const client = new LoadReportingServiceClient(...(await clientOf(uri, plane.adsAddress)));
    cleanUps.push(() => client.close());
    const report = LoadStatsRequest.fromPartial({ node: { id: "edge-1", cluster: "gateway" } });
    expect(await firstOf(client.streamLoadStats(), report)).toBe(words);
    expect(plane.nodes()).toEqual([]);
  });

  it("tells an Envoy with the certificate of a group nothing of another, whatever labels it carries", async () => {
    const plane = await startPlane();
    const node = { id: "edge-3", cluster: "gateway" };
    expect(await listenersOf(plane, "spiffe://mesh/group/default", node)).toEqual([8080]);
    expect(await listenersOf(plane, "spiffe://mesh/group/eu", { ...node, region: "eu" })).toEqual([8081]);
    const client = new AggregatedDiscoveryServiceClient(
      ...(await clientOf("spiffe://mesh/group/default", plane.adsAddress)),
    );
    cleanUps.push(() => client.close());
    const call = client.deltaAggregatedResources();
    const stranger = { id: "edge-4", cluster: "gateway", metadata: { labels: { region: "eu" } } };
    // The labels lead to the group eu, but the certificate is good for default alone, and the Envoy fits that one too.
    const answer = await firstOf(call, DeltaDiscoveryRequest.fromPartial({ node: stranger, typeUrl: LISTENER_TYPE }));
    expect(typeof answer === "string" ? answer : portsIn(answer)).toEqual([8080]);
  });

  it("takes nobody without a certificate", async () => {
    const plane = await startPlane();
    const client = new AggregatedDiscoveryServiceClient(plane.adsAddress, credentials.createInsecure());
    cleanUps.push(() => client.close());
    const ask = DeltaDiscoveryRequest.fromPartial({ node: { id: "edge-1" }, typeUrl: LISTENER_TYPE });
    expect(await firstOf(client.deltaAggregatedResources(), ask)).toMatch(/^UNAVAILABLE/);
  });

  it("lets a batcher register its own model, at its own address or in a range", async () => {
    const plane = await startPlane();
    const hello = (uri: string, value: { model: string; address: string }) =>
      clientOf(uri, plane.adsAddress).then((args) => {
        const client = new ReplicaServiceClient(...args);
        cleanUps.push(() => client.close());
        const full = {
          replicaId: `r-${value.address}`.replace(/:/g, "-"),
          version: 41n,
          softwareVersion: "test",
          tls: true,
          ...value,
        };
        return firstOf(client.connect(), { message: { $case: "hello", value: full } });
      });
    const own = "spiffe://mesh/batcher/ranker";
    for (const address of ["127.0.0.1:9001", "10.1.2.3:9001"]) {
      expect(await hello(own, { model: "ranker", address })).toMatchObject({ message: { $case: "assignment" } });
    }
    expect(await hello(own, { model: "ranker", address: "10.2.0.1:9001" })).toMatch(
      /^INVALID_ARGUMENT: hello.address "?10.2.0.1:9001"? is neither .* nor in a --batcher-range/,
    );
    expect(await hello("spiffe://mesh/batcher/echo", { model: "ranker", address: "127.0.0.1:9002" })).toBe(
      "PERMISSION_DENIED: hello.model ranker may not be registered by this batcher: its certificate is for spiffe://mesh/batcher/echo; give it one for spiffe://mesh/batcher/ranker",
    );
  });

  it("does not open with files that are not a control plane's", async () => {
    const other = await doorFiles("spiffe://mesh/gateway/edge-1");
    await expect(fixture.start({ tls: other })).rejects.toThrow(
      `--tls-certificate: "${other.certificate}" is for spiffe://mesh/gateway/edge-1, but a control plane needs one for spiffe://mesh/control-plane`,
    );
    const missing = { ...(await doorFiles()), clientAuthorities: "/nowhere/ca.pem" };
    await expect(fixture.start({ tls: missing })).rejects.toThrow(
      '--tls-client-ca: "/nowhere/ca.pem" cannot be read (ENOENT)',
    );
    await expect(fixture.start({ batcherRanges: ["10.1"] })).rejects.toThrow('--batcher-range: "10.1" is no range');
  });

  it("says whose port is taken", async () => {
    const plane = await startPlane();
    const [host = "", port = ""] = plane.adsAddress.split(":");
    const second = new ControlPlaneFixture();
    await expect(second.start({ tls: await doorFiles(), ads: { host, port: Number(port) } })).rejects.toThrow(
      `--ads: ${plane.adsAddress} is taken by another process`,
    );
    await second.cleanUp();
  });
});

describe("a certificate that ends while its client is connected", () => {
  it("ends the connection, so that the client comes back with a new one", async () => {
    const clock = new ManualClock(0, Date.now());
    const door = meshDoor(await doorFiles(), { clock, logger: silent });
    const lrs = new LrsServer({
      clock,
      logger: silent,
      sink: new LoadReports(),
      ...(door.authorizeNode === undefined ? {} : { authorize: door.authorizeNode }),
    });
    const server = new Server();
    lrs.addTo(server);
    const { host, port } = await door.open(server, { host: "127.0.0.1", port: 0 });
    cleanUps.push(() => {
      door.close();
      server.forceShutdown();
    });
    const client = new LoadReportingServiceClient(
      ...(await clientOf("spiffe://mesh/gateway/edge-1", `${host}:${port}`)),
    );
    cleanUps.push(() => client.close());
    const report = LoadStatsRequest.fromPartial({ node: { id: "edge-1", cluster: "gateway" } });
    const call = client.streamLoadStats();
    const ended = new Promise<string>((resolve) => {
      call.on("error", (error: ServiceError) => resolve(status[error.code]));
    });
    expect(await firstOf(call, report)).toMatchObject({ sendAllClusters: true });
    clock.advance(59 * 60_000);
    expect(lrs.streamCount).toBe(1);
    clock.advance(2 * 60_000);
    expect(await ended).toBe("UNAVAILABLE");
    await expect.poll(() => lrs.streamCount).toBe(0);
    expect(await firstOf(client.streamLoadStats(), report)).toMatch(/^UNAVAILABLE/);
  });
});
