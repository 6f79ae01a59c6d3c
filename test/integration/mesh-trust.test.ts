import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type TLSSocket } from "node:tls";
import { TestAuthority, TestMeshFolder } from "@servemesh/proto/testing/mesh-certificates";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startClosedLoop } from "../support/closed-loop.js";
import { eventually } from "../support/eventually.js";
import { GrpcClient } from "../support/grpc-client.js";
import { startTestMesh, type TestMesh } from "../support/mesh.js";
import { rankerRows } from "../support/ranker.js";

const CONTROL_PLANE = "spiffe://mesh/control-plane";
const GATEWAY = "spiffe://mesh/gateway/gateway-1";
const BATCHER = "spiffe://mesh/batcher/ranker";

/** Files of one part, with a new certificate each time they are written. */
class Part {
  readonly folder = new TestMeshFolder();
  readonly #authority: TestAuthority;
  readonly #uri: string;

  constructor(authority: TestAuthority, uri: string) {
    this.#authority = authority;
    this.#uri = uri;
  }

  async renew(): Promise<void> {
    this.folder.write(await this.#authority.issue([this.#uri]), this.#authority.pem);
  }

  get files() {
    const { certificate, privateKey, authorities } = this.folder;
    return { certificate, privateKey, authorities };
  }
}

describe("a mesh whose parts prove themselves to each other", () => {
  let mesh: TestMesh;
  let parts: Record<"controlPlane" | "gateway" | "batcher" | "stranger", Part>;

  beforeAll(async () => {
    const authority = await TestAuthority.create();
    parts = {
      controlPlane: new Part(authority, CONTROL_PLANE),
      gateway: new Part(authority, GATEWAY),
      batcher: new Part(authority, BATCHER),
      stranger: new Part(authority, "spiffe://mesh/batcher/other"),
    };
    for (const part of Object.values(parts)) await part.renew();
    mesh = await startTestMesh("mesh-trust", {
      replicas: ["ranker:41", "ranker:41"],
      identities: {
        trustDomain: "mesh",
        controlPlane: parts.controlPlane.files,
        gateway: parts.gateway.files,
        batchers: { ranker: parts.batcher.files },
      },
    });
  });
  afterAll(async () => {
    await mesh?.stop();
    for (const { folder } of Object.values(parts)) folder.remove();
  });

  /** Address of the first batcher's doors. */
  function door(): string {
    return mesh.mesh.replicas[0]?.batcherAddress as string;
  }

  /** The control plane's. */
  async function metrics(): Promise<string> {
    return (await fetch(`http://127.0.0.1:${mesh.mesh.ports.controlPlaneHealth}/metrics`)).text();
  }

  /** Opens a connection as one part and gives the serial number of the certificate that it meets; rejects when cut off. */
  function meet(address: string, { files }: Part): Promise<string> {
    const [host, port] = address.split(":");
    return new Promise((resolve, reject) => {
      const socket: TLSSocket = connect({
        host: host as string,
        port: Number(port),
        key: readFileSync(files.privateKey),
        cert: readFileSync(files.certificate),
        ca: readFileSync(files.authorities),
        ALPNProtocols: ["h2"],
        checkServerIdentity: () => undefined,
      });
      const serial = (): string => socket.getPeerCertificate().serialNumber;
      // A server of TLS 1.3 judges the client after the client's handshake; the HTTP/2 settings come when it is content.
      socket.once("data", () => {
        resolve(serial());
        socket.destroy();
      });
      socket.once("error", reject);
      socket.once("close", () => reject(new Error("the connection was closed")));
    });
  }

  it("serves, and Envoy reports its load, over connections with certificates alone", async () => {
    const rest = mesh.rest();
    const answer = await rest.post("/v1/models/ranker:predict", { instances: [rankerRows().next()] });
    expect([answer.status, answer.headers["x-servemesh-served-by"]]).toEqual([200, "ranker:41"]);
    const sockets = await (await fetch(`${mesh.mesh.envoyAdminUrl}/stats?filter=ssl.handshake`)).text();
    expect(sockets).toMatch(/cluster\.control-plane\.ssl\.handshake: [1-9]/);
    expect(sockets).toMatch(/cluster\.model\/ranker\/41\.ssl\.handshake: [1-9]/);
    await eventually(
      "a load report counts calls",
      async () => {
        // Envoy counts from the control plane's first answer on; what was before it is in no report.
        await rest.post("/v1/models/ranker:predict", { instances: [rankerRows().next()] });
        const counted = /load_requests_total\{cluster="model\/ranker\/41",outcome="success"\} (\d+)/.exec(
          await metrics(),
        );
        return Number(counted?.[1]) >= 1 || undefined;
      },
      { timeoutMs: 10_000 },
    );
    rest.close();
  });

  it("lets nobody into a batcher but gateways", async () => {
    await expect(meet(door(), parts.gateway)).resolves.toMatch(/^[0-9A-F]+$/);
    await expect(meet(door(), parts.stranger)).rejects.toThrow();
    const plain = new GrpcClient(door());
    const { code } = await plain.call({ method: "ServerLive", request: {}, timeoutMs: 2_000 });
    plain.close();
    expect(code).not.toBe(0);
  });

  it("follows new certificates of all parts under load, without a failed request", async () => {
    const rest = mesh.rest();
    const rows = rankerRows();
    const load = startClosedLoop(4, async () => {
      const answer = await rest.post("/v1/models/ranker:predict", { instances: [rows.next()] });
      return { status: answer.status, text: answer.body };
    });
    await eventually("a hundred answers", () => load.calls.length > 100 || undefined, { timeoutMs: 30_000 });
    const ads = `127.0.0.1:${mesh.mesh.ports.controlPlane}`;
    const before = { batcher: await meet(door(), parts.gateway), controlPlane: await meet(ads, parts.gateway) };
    for (const part of [parts.controlPlane, parts.batcher, parts.gateway]) await part.renew();
    await eventually(
      "the new certificates are met",
      async () => {
        const now = { batcher: await meet(door(), parts.gateway), controlPlane: await meet(ads, parts.gateway) };
        return (now.batcher !== before.batcher && now.controlPlane !== before.controlPlane) || undefined;
      },
      { timeoutMs: 20_000, everyMs: 250 },
    );
    // A restart makes Envoy and the batcher connect anew, with what they hold now.
    await mesh.mesh.controlPlane.kill();
    await mesh.mesh.controlPlane.start();
    await eventually(
      "both replicas and the gateway are connected again",
      async () => {
        // Not the replicas of the status, which are there after a restart before their batchers have come back.
        const text = await metrics();
        return (/servemesh_replica_streams 2\n/.test(text) && /servemesh_xds_streams 1\n/.test(text)) || undefined;
      },
      { timeoutMs: 30_000 },
    );
    await mesh.mesh.replicas[1]?.batcher.stop();
    await mesh.mesh.replicas[1]?.batcher.start();
    await mesh.mesh.waitReplicasReady(30_000);
    await sleep(1_000);
    const calls = await load.stop();
    rest.close();
    const failed = calls.filter((call) => call.error !== undefined || call.answer?.status !== 200);
    expect(failed.map((call) => call.error?.message ?? String(call.answer?.text))).toEqual([]);
    const certificates = await (await fetch(`${mesh.mesh.envoyAdminUrl}/certs`)).text();
    const { serialNumber } = new X509Certificate(readFileSync(parts.gateway.files.certificate));
    expect(certificates.toLowerCase()).toContain(serialNumber.replace(/^0+/, "").toLowerCase());
    console.log(`all certificates replaced under load: ${calls.length} calls, 0 failed`);
  });
});
