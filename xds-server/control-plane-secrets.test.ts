import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { credentials, Metadata } from "@grpc/grpc-js";
import {
  ClientStatusDiscoveryServiceClient,
  ClientStatusRequest,
} from "@servemesh/proto/gen/envoy/envoy/service/status/v3/csds.js";
import { Struct } from "@servemesh/proto/gen/envoy/google/protobuf/struct.js";
import { afterEach, expect, it } from "vitest";
import { type ControlPlane, createControlPlane } from "./control-plane.js";
import { ControlPlaneFixture, registerRanker } from "./control-plane-fixture.js";
import { createLogger } from "./platform/logger.js";
import { LISTENER_TYPE, SECRET_TYPE } from "./snapshot/resource-types.js";
import { selfSignedCertificate, type TestCertificate } from "./xds/certificate-fixture.js";

/** Certificates in a whole control plane, from the record and its files to the views of people. */
const POLL = { timeout: 15_000, interval: 20 };
const YEAR_MS = 365 * 24 * 3_600_000;
const NAME = "certificate/default";

let fixture: ControlPlaneFixture;
afterEach(() => fixture.cleanUp());

async function start(): Promise<{ plane: ControlPlane; log: string[] }> {
  fixture = new ControlPlaneFixture();
  const log: string[] = [];
  const logger = createLogger("trace", { write: (line: string) => log.push(line) });
  const plane = await createControlPlane(fixture.options, { logger });
  fixture.onCleanUp(() => plane.close());
  return { plane, log };
}

function put({ certificatePem, keyPem }: TestCertificate): void {
  for (const [file, text] of [
    ["edge.key", keyPem],
    ["edge.pem", certificatePem],
  ] as const) {
    writeFileSync(join(fixture.folder, `${file}.new`), text, { mode: 0o600 });
    renameSync(join(fixture.folder, `${file}.new`), join(fixture.folder, file));
  }
}

const certificateOf = (serial: number): TestCertificate =>
  selfSignedCertificate({ serial, validToMs: Date.now() + YEAR_MS });

function fetchClientStatus(plane: ControlPlane): Promise<string> {
  const client = new ClientStatusDiscoveryServiceClient(plane.adminAddress, credentials.createInsecure());
  fixture.onCleanUp(() => client.close());
  const metadata = Metadata.fromHttp2Headers({ authorization: `Bearer ${plane.token}` });
  return new Promise((resolve, reject) => {
    client.fetchClientStatus(ClientStatusRequest.fromPartial({}), metadata, (error, response) => {
      if (error !== null) reject(error);
      else resolve(response.config.flatMap((config) => config.genericXdsConfigs.map(readable)).join("\n"));
    });
  });
}

/** What a person reads of one resource: bytes as text and in base64, and a struct as JSON. */
function readable({
  name,
  xdsConfig,
}: {
  name: string;
  xdsConfig: { typeUrl: string; value: Buffer } | undefined;
}): string {
  const value = xdsConfig?.value ?? Buffer.alloc(0);
  const isStruct = xdsConfig?.typeUrl.endsWith("google.protobuf.Struct") === true;
  const text = isStruct ? JSON.stringify(Struct.unwrap(Struct.decode(value))) : value.toString("latin1");
  return `${name} ${text}`;
}

it("serves a record's certificate, follows its files, and shows no key to anybody but the gateway", async () => {
  const { plane, log } = await start();
  const admin = fixture.admin(plane);
  await registerRanker(admin);
  const [first, second] = [certificateOf(1), certificateOf(2)];
  const envoy = fixture.envoy(plane, [NAME]);
  const tlsCertificateFile = join(fixture.folder, "edge.pem");
  const files = { tlsPort: 8443, tlsCertificateFile, tlsPrivateKeyFile: join(fixture.folder, "edge.key") };
  await admin.putGateway({ gateway: { name: "default", httpAddress: "127.0.0.1", httpPort: 8080, ...files } });
  const problems = (): string[] =>
    plane.findings().flatMap(({ severity, message }) => (severity === "error" ? [message] : []));

  const missing = `tls_certificate_file "${tlsCertificateFile}" does not exist on the control plane's machine`;
  await expect.poll(problems, POLL).toEqual([`${missing}; the TLS listener is left out until there is a good pair`]);
  expect(await plane.whenSettled(POLL.timeout)).toEqual({ settled: true, unsettled: [] });
  expect(envoy.textOf(LISTENER_TYPE, "gateway-tls")).toBe("");
  expect(envoy.textOf(LISTENER_TYPE, "gateway")).not.toBe("");

  put(first);
  await expect.poll(() => envoy.textOf(SECRET_TYPE, NAME), POLL).toContain(first.keyPem);
  await expect.poll(() => envoy.textOf(LISTENER_TYPE, "gateway-tls"), POLL).toContain(NAME);
  expect(problems()).toEqual([]);
  put(second);
  await expect.poll(() => envoy.textOf(SECRET_TYPE, NAME), POLL).toContain(second.keyPem);
  writeFileSync(join(fixture.folder, "edge.key"), first.keyPem);
  await expect.poll(problems, POLL).toEqual([expect.stringMatching(/^tls_private_key_file .* stays in force$/)]);
  expect(envoy.textOf(SECRET_TYPE, NAME)).toContain(second.keyPem);
  expect(await plane.whenSettled(POLL.timeout)).toEqual({ settled: true, unsettled: [] });

  const { resources } = await admin.dumpXds({ nodeId: "envoy-1", contents: true });
  const secret = JSON.parse(resources.find(({ name }) => name === NAME)?.json ?? "{}");
  expect(secret.tlsCertificate.privateKey).toEqual({ inlineBytes: "[redacted]" });
  const [status, { findings }] = await Promise.all([fetchClientStatus(plane), admin.getStatus()]);
  expect(status).toContain(`${NAME} {`);
  const views = [JSON.stringify(resources.map(({ json }) => json)), JSON.stringify(findings), status, log.join("")];
  expect(views.every((view) => view.includes(NAME) || view.includes("tls_private_key_file"))).toBe(true);
  expect(log.some((line) => line.includes('"certificate in force"') && line.includes('"serial":"02"'))).toBe(true);
  for (const { keyPem } of [first, second]) {
    const line = keyPem.split("\n")[1] ?? "";
    expect(line).toHaveLength(64);
    const inBase64 = Buffer.from(keyPem).toString("base64").slice(40, 80);
    for (const view of views) expect([line.slice(0, 16), inBase64].filter((text) => view.includes(text))).toEqual([]);
  }
});
