import { connect } from "node:tls";
import { Server } from "@grpc/grpc-js";
import { TestAuthority, TestMeshFolder } from "@servemesh/proto/testing/mesh-certificates";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BatcherIdentity } from "./batcher-identity.js";
import { systemClock } from "./clock.js";

let authority: TestAuthority;
const cleanUps: (() => void)[] = [];

beforeEach(async () => {
  authority = await TestAuthority.create();
});

afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

async function folderOf(uri: string): Promise<TestMeshFolder> {
  const folder = new TestMeshFolder().write(await authority.issue([uri]), authority.pem);
  cleanUps.push(() => folder.remove());
  return folder;
}

async function identityOf(uri: string, lines: string[] = []): Promise<BatcherIdentity> {
  const { certificate, privateKey, authorities } = await folderOf(uri);
  const logger = pino({}, { write: (line) => lines.push(line) });
  const identity = new BatcherIdentity({ certificate, privateKey, authorities }, "ranker", {
    clock: systemClock,
    logger,
  });
  cleanUps.push(() => identity.close());
  return identity;
}

/** Whether the batcher's port speaks to a part of the mesh, or cuts the connection. */
async function isLetIn(uri: string, port: number): Promise<boolean> {
  const { certificatePem: cert, keyPem: key } = await authority.issue([uri]);
  const options = { cert, key, ca: authority.pem, ALPNProtocols: ["h2"], checkServerIdentity: () => undefined };
  const socket = connect(port, "127.0.0.1", options);
  cleanUps.push(() => socket.destroy());
  return new Promise((resolve) => {
    // HTTP/2 begins with the server's settings.
    socket.on("data", () => resolve(true));
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(false));
  });
}

describe("the door of a batcher with mutual TLS", () => {
  it("takes gateways, sidecars and their groups of its own mesh, and nobody else", async () => {
    const lines: string[] = [];
    const identity = await identityOf("spiffe://mesh/batcher/ranker", lines);
    const server = new Server();
    const listener = identity.listenerFor(server);
    cleanUps.push(() => {
      listener.close();
      server.forceShutdown();
    });
    const port = await listener.open("127.0.0.1", 0);
    for (const uri of ["spiffe://mesh/gateway/a", "spiffe://mesh/sidecar/b", "spiffe://mesh/group/c"]) {
      expect(await isLetIn(uri, port)).toBe(true);
    }
    expect(lines.filter((line) => line.includes("connection refused"))).toEqual([]);
    for (const uri of ["spiffe://mesh/batcher/echo", "spiffe://mesh/control-plane", "spiffe://other/gateway/a"]) {
      expect(await isLetIn(uri, port)).toBe(false);
      expect(lines.join()).toContain(`its certificate is for ${uri}, but only gateways and sidecars of mesh may call`);
    }
  });

  it("does not open under another model's certificate", async () => {
    await expect(identityOf("spiffe://mesh/batcher/echo")).rejects.toThrow(
      /^--tls-certificate: ".*" is for spiffe:\/\/mesh\/batcher\/echo, but this batcher needs one for spiffe:\/\/mesh\/batcher\/ranker$/,
    );
  });
});
