import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import { XdsResourceState } from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { routeResource } from "../snapshot/resource.js";
import { CLUSTER_TYPE, ROUTE_TYPE } from "../snapshot/resource-types.js";
import type { ResourceInspection } from "../xds/csds-inspection.js";
import type { ObservedNode } from "../xds/csds-node-book.js";
import { AdminFixture, refusal } from "./admin-fixture.js";

const held = routeResource(RouteConfiguration.fromPartial({ name: "routes/ranker" }));
const wanted = routeResource(
  RouteConfiguration.fromPartial({
    name: "routes/ranker",
    requestHeadersToAdd: [{ header: { key: "authorization", value: "Bearer of-nobody" } }],
  }),
);
const resource = (name: string, state: ResourceInspection["state"]): ResourceInspection => ({
  name,
  state,
  version: "v2",
  ackedVersion: "v1",
  underWayVersion: "",
  resource: held,
  wanted,
});

function node(nodeId: string, typeUrl: string, resources: readonly ResourceInspection[], atMs = 5_000): ObservedNode {
  return {
    nodeId,
    connectedAtMs: atMs,
    nackCount: 3,
    nacks: [{ typeUrl: ROUTE_TYPE, names: ["routes/ranker"], words: "bad weight", atMs: 9_000 }],
    stream: {
      node: { nodeId, rejections: [{ typeUrl: ROUTE_TYPE, name: "routes/ranker", words: "bad weight" }] },
      status: () => [{ typeUrl, sentVersion: "sent", ackedVersion: "acked" }],
      inspect: () => [{ typeUrl, version: "whole", resources }],
    },
  };
}

const ROUTES = [resource("routes/echo", "acked"), resource("routes/ranker", "refused"), resource("routes/x", "absent")];

let fixture: AdminFixture;

beforeEach(async () => {
  fixture = await AdminFixture.open();
  fixture.xdsNodes = [
    node("gateway-1", ROUTE_TYPE, ROUTES),
    node("gateway-1", CLUSTER_TYPE, [resource("model/ranker/41", "pending"), resource("_server", "under_way")]),
    node("gateway-2", CLUSTER_TYPE, []),
  ];
});

afterEach(() => fixture.close());

describe("ListXdsNodes", () => {
  it("tells versions, counts and refusals of each stream", async () => {
    const { nodes } = await fixture.admin.listXdsNodes();
    expect(nodes.map(({ nodeId }) => nodeId)).toEqual(["gateway-1", "gateway-1", "gateway-2"]);
    expect(nodes[0]).toEqual({
      nodeId: "gateway-1",
      connectedSince: new Date(5_000),
      nackCount: 3n,
      nacks: [{ typeUrl: ROUTE_TYPE, names: ["routes/ranker"], words: "bad weight", at: new Date(9_000) }],
      types: [
        {
          typeUrl: ROUTE_TYPE,
          version: "whole",
          sentVersion: "sent",
          ackedVersion: "acked",
          acked: 1,
          pending: 0,
          underWay: 0,
          refused: 1,
        },
      ],
    });
    expect(nodes[1]?.types[0]).toMatchObject({ acked: 0, pending: 1, underWay: 1, refused: 0 });
    expect(fixture.called).toEqual(["ListXdsNodes OK"]);
  });
});

describe("DumpXds", () => {
  it("shows all streams of a node, without contents unless asked", async () => {
    const { node: summary, resources } = await fixture.admin.dumpXds({ nodeId: "gateway-1" });
    expect(summary?.types.map(({ typeUrl }) => typeUrl)).toEqual([ROUTE_TYPE, CLUSTER_TYPE]);
    expect(resources.map(({ name }) => name)).toEqual([
      "routes/echo",
      "routes/ranker",
      "routes/x",
      "model/ranker/41",
      "_server",
    ]);
    expect(resources[1]).toEqual({
      typeUrl: ROUTE_TYPE,
      name: "routes/ranker",
      state: XdsResourceState.XDS_RESOURCE_STATE_REFUSED,
      version: "v2",
      ackedVersion: "v1",
      underWayVersion: "",
      nack: "bad weight",
      nackedAt: new Date(9_000),
      json: "",
    });
    expect(resources[0]).toMatchObject({ nack: "", nackedAt: undefined });
  });

  it("chooses by type, by name and by what is not acknowledged", async () => {
    const names = async (request: object): Promise<string[]> =>
      (await fixture.admin.dumpXds({ nodeId: "gateway-1", ...request })).resources.map(({ name }) => name);
    expect(await names({ typeUrl: CLUSTER_TYPE })).toEqual(["model/ranker/41", "_server"]);
    expect(await names({ namePrefix: "routes/r" })).toEqual(["routes/ranker"]);
    expect(await names({ unacknowledgedOnly: true })).toEqual(["routes/ranker", "model/ranker/41", "_server"]);
  });

  it("shows what was sent, of a refusal what was refused, and never a secret", async () => {
    const { resources } = await fixture.admin.dumpXds({ nodeId: "gateway-1", contents: true });
    expect(JSON.parse(resources[0]?.json ?? "")).toEqual({
      "@type": ROUTE_TYPE,
      name: "routes/ranker",
    });
    expect(resources[1]?.json).toContain('"value":"[redacted]"');
    expect(JSON.stringify(resources, (_, value) => (typeof value === "bigint" ? `${value}` : value))).not.toContain(
      "of-nobody",
    );
  });

  it("says which node is missing", async () => {
    expect(await refusal(fixture.admin.dumpXds({ nodeId: "gateway-9" }))).toBe(
      "NOT_FOUND: node_id: no Envoy named gateway-9 is connected; `meshctl xds nodes` lists those that are",
    );
    expect(await refusal(fixture.admin.dumpXds({}))).toBe("INVALID_ARGUMENT: node_id is empty; name a connected Envoy");
  });

  it("refuses a dump that would not fit", async () => {
    const padding = "x".repeat(1024 * 1024);
    const large = routeResource(RouteConfiguration.fromPartial({ name: padding }));
    const entries = Array.from({ length: 40 }, (_, index) => ({ ...resource(`${index}`, "acked"), resource: large }));
    fixture.xdsNodes = [node("gateway-1", ROUTE_TYPE, entries)];
    expect(await refusal(fixture.admin.dumpXds({ nodeId: "gateway-1", contents: true }))).toBe(
      "FAILED_PRECONDITION: the dump has more than 32 MiB; name a type_url or a name_prefix",
    );
    const few = await fixture.admin.dumpXds({ nodeId: "gateway-1", contents: true, namePrefix: "3" });
    expect(few.resources).toHaveLength(11);
  });
});
