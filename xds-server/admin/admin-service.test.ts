import { type CallOptions, Client, credentials, Metadata, status } from "@grpc/grpc-js";
import { GetStatusResponse } from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type AdminClient, createAdminClient } from "./admin-client.js";
import { AdminFixture, refusal, TOKEN } from "./admin-fixture.js";
import { REQUEST_MAX_BYTES } from "./admin-service.js";

let fixture: AdminFixture;
let admin: AdminClient;

beforeEach(async () => {
  fixture = await AdminFixture.open();
  admin = fixture.admin;
});

afterEach(() => fixture.close());

describe("the token", () => {
  it.each([
    ["none", {}],
    ["a wrong one", { authorization: "Bearer sm_admin_0123456789abcdefghijkX" }],
    ["a prefix of the right one", { authorization: `Bearer ${TOKEN.slice(0, -1)}` }],
    ["another scheme", { authorization: `Basic ${TOKEN}` }],
    ["the token without a scheme", { authorization: TOKEN }],
    ["an empty one", { authorization: "Bearer " }],
  ])("%s is refused before anything is read", async (_, headers) => {
    const metadata = Metadata.fromHttp2Headers(headers);
    const error = await rawStatus(metadata);
    expect(error.code).toBe(status.UNAUTHENTICATED);
    expect(error.details).toMatch(/^authorization/);
    expect(error.details).not.toContain(TOKEN.slice(0, 20));
  });

  it("opens every call, and calls are counted", async () => {
    await admin.getStatus();
    await refusal(admin.getModel({ model: "ranker" }));
    expect(fixture.called).toEqual(["GetStatus OK", "GetModel NOT_FOUND"]);
  });

  function rawStatus(metadata: Metadata): Promise<{ code: number; details: string }> {
    const client = new Client(fixture.address, credentials.createInsecure());
    const path = "/servemesh.control.v1.AdminService/GetStatus";
    const options: CallOptions = {};
    return new Promise((resolve) => {
      client.makeUnaryRequest(
        path,
        () => Buffer.alloc(0),
        (bytes) => GetStatusResponse.decode(bytes),
        {},
        metadata,
        options,
        (error) => {
          client.close();
          resolve(error ?? { code: status.OK, details: "" });
        },
      );
    });
  }
});

describe("gateways and status", () => {
  it("writes a gateway whatever was there, and refuses a bad one", async () => {
    await admin.putGateway({ gateway: { name: "default", httpPort: 8080 } });
    const { revision } = await admin.putGateway({ gateway: { name: "default", httpPort: 8081 } });
    expect(fixture.test.registry.state.gateways.get("default")).toMatchObject({
      modRevision: revision,
      value: { httpPort: 8081 },
    });
    expect(await refusal(admin.putGateway({ gateway: { name: "default" } }))).toContain(
      "INVALID_ARGUMENT: gateway: http_port and tls_port are both 0",
    );
  });

  it("tells the revision, findings, nodes, replicas and its version", async () => {
    await fixture.putRanker();
    expect(await admin.getStatus()).toEqual({
      revision: 1n,
      findings: [{ severity: "warning", subject: "versions", message: "signatures are not checked yet" }],
      nodes: [
        { nodeId: "envoy-1", types: [{ typeUrl: "t", sentVersion: "2", ackedVersion: "1", nack: "bad weight" }] },
      ],
      replicas: [],
      softwareVersion: "0.1.0",
    });
  });

  it("refuses a request above the limit", async () => {
    const owner = "o".repeat(REQUEST_MAX_BYTES);
    expect(await refusal(admin.putModel({ model: { name: "ranker", owner } }))).toContain("RESOURCE_EXHAUSTED");
  });
});

describe("createAdminClient", () => {
  it("refuses an address that would carry the token out of the machine", () => {
    expect(() => createAdminClient({ address: "10.0.0.1:18001", token: TOKEN })).toThrow(
      'address: "10.0.0.1" is not a loopback address',
    );
  });

  it("says what to do when nobody answers", async () => {
    fixture.server.forceShutdown();
    expect(await refusal(admin.getStatus())).toContain(
      `UNAVAILABLE: no control plane answers at ${fixture.address}; start it`,
    );
  });
});
