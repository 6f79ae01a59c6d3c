import { Cluster } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import { ClusterLoadAssignment } from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/endpoint.js";
import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import type { DeltaDiscoveryResponse } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { DeltaStream, SotwStream } from "./discovery-stream.js";
import { field, type NamedResource, SUCCESS, SuiteClient } from "./suite-client.js";
import { TargetProcess } from "./target-process.js";

const NODE = "test-id";
const CDS = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const LDS = "type.googleapis.com/envoy.config.listener.v3.Listener";
const RDS = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
const EDS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
const TYPES = [CDS, LDS, RDS, EDS] as const;

/** gRPC's numbers. */
const INVALID_ARGUMENT = 3;
const NOT_FOUND = 5;
const ALREADY_EXISTS = 6;

let target: TargetProcess;
let xdsAddress: string;
let suite: SuiteClient;
const cleanUps: (() => void)[] = [];

beforeAll(async () => {
  target = new TargetProcess("--xds-port", "0", "--adapter-port", "0");
  const { xds, adapter } = await target.addresses();
  xdsAddress = xds;
  suite = new SuiteClient(adapter, NODE);
});

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
  await suite.clearState();
});

afterAll(async () => {
  suite?.close();
  await target?.kill();
});

function delta(): DeltaStream {
  const stream = new DeltaStream(xdsAddress);
  cleanUps.push(() => stream.close());
  return stream;
}

/** The type version that a client which asks for a type now is told. */
async function versionNow(typeUrl: string): Promise<string> {
  const stream = new SotwStream(xdsAddress, NODE, typeUrl);
  cleanUps.push(() => stream.close());
  return (await stream.response(typeUrl, 0)).versionInfo;
}

/** Messages with nothing but a name, which is field 1 of all four types. */
const named = (typeUrl: string, ...names: string[]): NamedResource[] =>
  names.map((name) => ({ typeUrl, value: field(1, name) }));

/** `name@version` of each resource. */
const versions = ({ resources }: DeltaDiscoveryResponse): string[] =>
  resources.map(({ name, version }) => `${name}@${version}`).sort();

const contentOf = ({ resources }: DeltaDiscoveryResponse, name: string): Buffer =>
  resources.find((resource) => resource.name === name)?.resource?.value ?? Buffer.alloc(0);

describe("SetState", () => {
  it.each(TYPES)("serves what it is given under the given version: %s", async (typeUrl) => {
    expect(await suite.setState("one", named(typeUrl, "A", "B"))).toEqual({ code: 0, message: "", bytes: SUCCESS });
    const stream = delta();
    stream.subscribe(NODE, typeUrl, ["A", "B"]);
    const response = await stream.response(typeUrl, 0);
    expect(versions(response)).toEqual(["A@one", "B@one"]);
    expect(response.systemVersionInfo).toBe("one");
  });

  it("is live on return, also as state of the world", async () => {
    await suite.setState("1", named(LDS, "D", "E"));
    const stream = new SotwStream(xdsAddress, NODE, LDS);
    cleanUps.push(() => stream.close());
    const { versionInfo, resources } = await stream.response(LDS, 0);
    expect(versionInfo).toBe("1");
    expect(resources.map(({ value }) => Listener.decode(value).name)).toEqual(["D", "E"]);
  });

  it("completes resources that have only a name", async () => {
    await suite.setState("1", [...TYPES.flatMap((typeUrl) => named(typeUrl, "A"))]);
    const stream = delta();
    for (const typeUrl of TYPES) stream.subscribe(NODE, typeUrl, ["A"]);
    const contents = await Promise.all(TYPES.map(async (typeUrl) => contentOf(await stream.response(typeUrl, 0), "A")));
    const [cluster, listener, routes, endpoints] = contents as [Buffer, Buffer, Buffer, Buffer];
    expect(Cluster.decode(cluster).loadAssignment?.endpoints).toHaveLength(1);
    expect(Listener.decode(listener).filterChains[0]?.filters).toHaveLength(1);
    expect(RouteConfiguration.decode(routes).virtualHosts[0]?.routes).toHaveLength(1);
    expect(ClusterLoadAssignment.decode(endpoints).endpoints[0]?.lbEndpoints).toHaveLength(1);
  });

  it("leaves a resource that has more than a name as it is", async () => {
    const value = Cluster.encode(Cluster.fromPartial({ name: "A", altStatName: "mine" })).finish();
    await suite.setState("1", [{ typeUrl: CDS, value }]);
    const stream = delta();
    stream.subscribe(NODE, CDS, ["A"]);
    expect(contentOf(await stream.response(CDS, 0), "A")).toEqual(Buffer.from(value));
  });

  it("replaces the state before", async () => {
    await suite.setState("1", named(CDS, "A"));
    const stream = delta();
    stream.subscribe(NODE, CDS, []);
    await stream.response(CDS, 0);
    await suite.setState("2", named(CDS, "B"));
    const response = await stream.response(CDS, 1);
    expect(versions(response)).toEqual(["B@2"]);
    expect(response.removedResources).toEqual(["A"]);
  });
});

describe("UpdateResource", () => {
  it.each(TYPES)("changes the content and the version of one resource: %s", async (typeUrl) => {
    await suite.setState("1", named(typeUrl, "A", "B"));
    const stream = delta();
    stream.subscribe(NODE, typeUrl, ["A", "B"]);
    const contents = [contentOf(await stream.response(typeUrl, 0), "A").toString("hex")];
    for (const [index, version] of ["2", "3"].entries()) {
      expect(await suite.change("UpdateResource", typeUrl, "A", version)).toMatchObject({ code: 0, bytes: SUCCESS });
      const response = await stream.response(typeUrl, index + 1);
      expect(versions(response)).toEqual([`A@${version}`]);
      expect(response.systemVersionInfo).toBe(version);
      contents.push(contentOf(response, "A").toString("hex"));
    }
    expect(new Set(contents).size).toBe(3);
  });

  it("leaves other types alone", async () => {
    await suite.setState("1", [...named(CDS, "A"), ...named(LDS, "A")]);
    await suite.change("UpdateResource", CDS, "A", "2");
    expect([await versionNow(CDS), await versionNow(LDS)]).toEqual(["2", "1"]);
  });

  it("waits, so that what was sent on a stream before it counts first", async () => {
    await suite.setState("1", named(CDS, "A"));
    const startMs = performance.now();
    await suite.change("UpdateResource", CDS, "A", "2");
    // Timers of Node may be up to 1 ms early.
    expect(performance.now() - startMs).toBeGreaterThan(149);
  });
});

describe("AddResource", () => {
  it.each(TYPES)("adds one resource under the given version: %s", async (typeUrl) => {
    await suite.setState("1", named(typeUrl, "A", "B"));
    const stream = delta();
    stream.subscribe(NODE, typeUrl, ["A", "B"]);
    await stream.response(typeUrl, 0);
    expect(await suite.change("AddResource", typeUrl, "C", "2")).toMatchObject({ code: 0, bytes: SUCCESS });
    stream.subscribe(NODE, typeUrl, ["C"]);
    const second = await stream.response(typeUrl, 1);
    expect([versions(second), second.systemVersionInfo]).toEqual([["C@2"], "2"]);
    expect(contentOf(second, "C").length).toBeGreaterThan(field(1, "C").length);
  });
});

describe("RemoveResource", () => {
  it("takes a resource away, and it can be added again", async () => {
    await suite.setState("1", named(EDS, "A", "B"));
    const stream = delta();
    stream.subscribe(NODE, EDS, ["A", "B"]);
    await stream.response(EDS, 0);
    expect(await suite.change("RemoveResource", EDS, "A", "1")).toMatchObject({ code: 0, bytes: SUCCESS });
    const removal = await stream.response(EDS, 1);
    expect([versions(removal), removal.removedResources]).toEqual([[], ["A"]]);
    await suite.change("AddResource", EDS, "A", "2");
    expect(versions(await stream.response(EDS, 2))).toEqual(["A@2"]);
  });

  it.each([
    ["", "1"],
    ["5", "5"],
  ])("with version '%s' leaves the type at %s", async (version, expected) => {
    await suite.setState("1", named(CDS, "A", "B"));
    await suite.change("RemoveResource", CDS, "A", version);
    expect(await versionNow(CDS)).toBe(expected);
  });
});

describe("ClearState", () => {
  it("takes everything away", async () => {
    await suite.setState("1", [...named(CDS, "A"), ...named(LDS, "D")]);
    const stream = delta();
    for (const typeUrl of [CDS, LDS]) stream.subscribe(NODE, typeUrl, []);
    for (const typeUrl of [CDS, LDS]) await stream.response(typeUrl, 0);
    expect(await suite.clearState()).toMatchObject({ code: 0, bytes: field(1, `cleared the state of ${NODE}`) });
    const gone = await Promise.all([CDS, LDS].map((typeUrl) => stream.response(typeUrl, 1)));
    expect(gone.map(({ removedResources }) => removedResources)).toEqual([["A"], ["D"]]);
  });

  it("of nothing is no fault", async () => {
    expect(await suite.clearState()).toMatchObject({
      code: 0,
      bytes: field(1, `there was no state for "${NODE}"`),
    });
  });
});

describe("what cannot be done is refused and changes nothing", () => {
  it.each([
    ["a version is missing", "", named(CDS, "A")],
    ["a name is missing", "2", [...named(CDS, "C"), ...named(CDS, "")]],
    ["a name is given twice", "2", named(CDS, "C", "C")],
    ["the type is unknown", "2", [...named(CDS, "C"), ...named("type.googleapis.com/envoy.Nothing", "A")]],
    ["a message cannot be decoded", "2", [{ typeUrl: CDS, value: Buffer.from([10, 9, 65]) }]],
  ])("SetState: %s", async (_what, version, resources) => {
    await suite.setState("1", named(CDS, "A"));
    expect((await suite.setState(version, resources)).code).toBe(INVALID_ARGUMENT);
    expect(await versionNow(CDS)).toBe("1");
  });

  it.each([
    ["UpdateResource", CDS, "Z", "2", NOT_FOUND],
    ["UpdateResource", LDS, "A", "2", NOT_FOUND],
    ["UpdateResource", CDS, "A", "", INVALID_ARGUMENT],
    ["UpdateResource", CDS, "A", "1", INVALID_ARGUMENT],
    ["UpdateResource", "envoy.Nothing", "A", "2", INVALID_ARGUMENT],
    ["AddResource", CDS, "A", "2", ALREADY_EXISTS],
    ["AddResource", CDS, "C", "", INVALID_ARGUMENT],
    ["AddResource", CDS, "", "2", INVALID_ARGUMENT],
    ["RemoveResource", CDS, "Z", "2", NOT_FOUND],
  ] as const)("%s of %s '%s' to version '%s'", async (method, typeUrl, name, version, code) => {
    await suite.setState("1", named(CDS, "A"));
    expect((await suite.change(method, typeUrl, name, version)).code).toBe(code);
    expect(await versionNow(CDS)).toBe("1");
  });

  it("changes for a node that has no state", async () => {
    await suite.setState("1", named(CDS, "A"));
    const stranger = new SuiteClient((await target.addresses()).adapter, "other");
    cleanUps.push(() => stranger.close());
    expect((await stranger.change("AddResource", CDS, "C", "2")).code).toBe(NOT_FOUND);
    await stranger.clearState();
    expect(await versionNow(CDS)).toBe("1");
  });
});
