import { X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createServer, type Server } from "node:tls";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type CertificateFiles, provideCertificates } from "./certificates.js";

const DAY_MS = 86_400_000;
let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "servemesh-certificates-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function read(files: CertificateFiles): { ca: X509Certificate; server: X509Certificate } {
  return {
    ca: new X509Certificate(readFileSync(files.caCertificate)),
    server: new X509Certificate(readFileSync(files.serverCertificate)),
  };
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
  });
}

describe("provideCertificates", () => {
  it("makes a server certificate for loopback that the CA has signed, and keeps the key private", async () => {
    const files = await provideCertificates(folder, Date.now());
    const { ca, server } = read(files);
    expect(ca.ca).toBe(true);
    expect(server.ca).toBe(false);
    expect(server.verify(ca.publicKey)).toBe(true);
    expect(server.checkHost("localhost")).toBe("localhost");
    expect(server.checkIP("127.0.0.1")).toBe("127.0.0.1");
    expect(server.checkHost("example.com")).toBeUndefined();
    expect(statSync(files.serverKey).mode & 0o777).toBe(0o600);
  });

  it("makes what a TLS client accepts with the CA and refuses without", async () => {
    const files = await provideCertificates(folder, Date.now());
    const server = createServer({ key: readFileSync(files.serverKey), cert: readFileSync(files.serverCertificate) });
    server.on("tlsClientError", () => {});
    const port = await listen(server);
    const dial = (ca: Buffer | undefined): Promise<string> =>
      new Promise((resolve) => {
        const socket = connect({ port, host: "127.0.0.1", ...(ca === undefined ? {} : { ca }) });
        socket.once("secureConnect", () => {
          resolve("accepted");
          socket.destroy();
        });
        socket.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
      });
    expect(await dial(readFileSync(files.caCertificate))).toBe("accepted");
    expect(await dial(undefined)).not.toBe("accepted");
    await new Promise((resolve) => {
      server.close(resolve);
    });
  }, 10_000);

  it("keeps what is there until a week before it expires", async () => {
    const nowMs = Date.now();
    const files = await provideCertificates(folder, nowMs);
    const before = read(files).server.serialNumber;
    await provideCertificates(folder, nowMs + 80 * DAY_MS);
    expect(read(files).server.serialNumber).toBe(before);
    await provideCertificates(folder, nowMs + 84 * DAY_MS);
    expect(read(files).server.serialNumber).not.toBe(before);
  });

  it("makes the set anew when a file of it is missing", async () => {
    const files = await provideCertificates(folder, Date.now());
    rmSync(files.serverKey);
    await provideCertificates(folder, Date.now());
    const { ca, server } = read(files);
    expect(server.verify(ca.publicKey)).toBe(true);
    expect(statSync(files.serverKey).size).toBeGreaterThan(0);
  });
});
