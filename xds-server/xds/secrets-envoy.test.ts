import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { planMesh } from "../plan/plan.js";
import { rankerOn, type StateFixture, stateOf } from "../plan/state-fixture.js";
import { systemClock } from "../platform/clock.js";
import type { Finding } from "../registry/state.js";
import { machineFiles } from "../secrets/file-access.js";
import { SecretFiles } from "../secrets/secret-files.js";
import { buildSnapshot, inconsistencies, type Snapshot } from "../snapshot/snapshot.js";
import { withOpenGate } from "../translate/open-gate-fixture.js";
import { translate } from "../translate/translate-fixture.js";
import { selfSignedCertificate, type TestCertificate } from "./certificate-fixture.js";
import { type AdsApiType, envoyBinary } from "./envoy-fixture.js";
import { PATIENCE_MS, restDescriptor, TestMesh } from "./mesh-fixture.js";
import { XdsServer } from "./xds-server.js";

/** Certificates from files to handshakes: the watched files, SDS and a real Envoy, with the files changing under load. */
const binary = envoyBinary();
if (binary === undefined) console.info("skipped: no Envoy; run `npm run setup` or set ENVOY_BIN");

const POLL = { timeout: PATIENCE_MS };
const YEAR_MS = 365 * 24 * 3_600_000;

interface Handshake {
  readonly status: number | undefined;
  /** Serial number of the certificate that the gateway showed. */
  readonly serial: string;
}

/** One call on a connection of its own. */
function callByTls(port: number, ca: readonly string[]): Promise<Handshake> {
  return new Promise((resolve, reject) => {
    const headers = { "x-test-route": "_server/live" };
    const options = { host: "127.0.0.1", port, path: "/v2/health/live", ca: [...ca], headers, agent: false };
    httpsRequest(options, (response) => {
      const serial = (response.socket as TLSSocket).getPeerCertificate().serialNumber;
      response.resume().once("end", () => resolve({ status: response.statusCode, serial }));
    })
      .once("error", reject)
      .end();
  });
}

describe.skipIf(binary === undefined).each<AdsApiType>(["DELTA_GRPC", "GRPC"])("certificates by SDS, %s", (apiType) => {
  let folder: string;
  let mesh: TestMesh;
  let ranker: StateFixture;
  let state: StateFixture;
  let snapshot: Snapshot | undefined;
  let findings: readonly Finding[] = [];
  const certificates = [1, 2, 3].map((serial) => selfSignedCertificate({ serial, validToMs: Date.now() + YEAR_MS }));
  const [first, second, third] = certificates as [TestCertificate, TestCertificate, TestCertificate];
  const authorities = certificates.map(({ certificatePem }) => certificatePem);

  const secrets = new SecretFiles({
    clock: systemClock,
    files: machineFiles,
    logger: { info: () => undefined },
    onChange: () => publish(),
  });

  function publish(): void {
    const plan = planMesh(stateOf(state));
    const provided = secrets.provide(plan.gateways);
    const settings = { gate: undefined, transcoderDescriptor: restDescriptor(), secrets: provided.pairs };
    snapshot = buildSnapshot(withOpenGate(translate(plan, settings)), snapshot);
    findings = [...inconsistencies(snapshot).map(notPublished), ...provided.findings];
    mesh.xds.setSnapshot(snapshot);
  }

  /** As Kubernetes does it: both files move at once, by the link above them. */
  function place(version: string, { certificatePem, keyPem }: TestCertificate, keyMode = 0o600): void {
    mkdirSync(join(folder, version));
    writeFileSync(join(folder, version, "tls.crt"), certificatePem);
    writeFileSync(join(folder, version, "tls.key"), keyPem, { mode: keyMode });
    symlinkSync(version, join(folder, "..data_tmp"));
    renameSync(join(folder, "..data_tmp"), join(folder, "..data"));
  }

  const call = (): Promise<Handshake> => callByTls(mesh.ports.tls, authorities);
  const serialNow = (): Promise<string> => call().then(({ serial }) => serial);

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "servemesh-sds-"));
    for (const file of ["tls.crt", "tls.key"]) symlinkSync(join("..data", file), join(folder, file));
    mesh = await TestMesh.open((deps) => new XdsServer(deps));
    ranker = rankerOn(mesh.servingPorts);
    const tls = {
      tlsPort: mesh.ports.tls,
      tlsCertificateFile: join(folder, "tls.crt"),
      tlsPrivateKeyFile: join(folder, "tls.key"),
    };
    state = { ...ranker, gateways: [{ ...ranker.gateways?.[0], ...tls }] };
    publish();
    mesh.startEnvoy(binary ?? "", apiType);
    await mesh.untilOpen();
  });

  afterAll(async () => {
    secrets.close();
    await mesh?.close();
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  });

  it("opens the plain door of a new Envoy while there is no certificate", async () => {
    expect(findings).toEqual([
      {
        severity: "error",
        subject: "gateways/default",
        message: expect.stringMatching(/tls\.crt" does not exist .*the TLS listener is left out until/),
      },
    ]);
    await expect(call()).rejects.toThrow("ECONNREFUSED");
    expect(await mesh.settled()).toEqual({ settled: true, unsettled: [] });
  });

  it("opens the TLS listener with the pair once its files are there", async () => {
    place("v1", first);
    await expect.poll(() => call().catch(() => undefined), POLL).toEqual({ status: 200, serial: "01" });
    expect(await mesh.settled()).toEqual({ settled: true, unsettled: [] });
    expect(findings).toEqual([]);
    expect(mesh.xds.findings()).toEqual([]);
    expect(mesh.wire.filter((line) => line.startsWith("Secret"))).toEqual(["Secret: certificate/default"]);
  });

  it("replaces the certificate without a failed call, and by its secret alone", async () => {
    mesh.wire.length = 0;
    const load = mesh.load(call);
    await expect.poll(() => load.outcomes.length, POLL).toBeGreaterThan(20);
    place("v2", second);
    await expect.poll(() => load.outcomes.at(-1)?.serial, POLL).toBe("02");
    const outcomes = await load.stop();
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set([200]));
    const serials = outcomes.map(({ serial }) => serial);
    expect(serials).toEqual([...serials].sort());
    expect(new Set(serials)).toEqual(new Set(["01", "02"]));
    expect(mesh.wire).toEqual(["Secret: certificate/default"]);
  });

  it("keeps the certificate while the files hold none that is good, and says which file is wrong", async () => {
    mesh.wire.length = 0;
    place("broken", { certificatePem: third.certificatePem, keyPem: first.keyPem });
    await expect
      .poll(() => findings, POLL)
      .toEqual([
        {
          severity: "error",
          subject: "gateways/default",
          message: expect.stringMatching(/tls\.key" does not belong to the first certificate .* stays in force$/),
        },
      ]);
    expect(await call()).toEqual({ status: 200, serial: "02" });
    expect(mesh.wire).toEqual([]);
    place("v3", third);
    await expect.poll(serialNow, POLL).toBe("03");
    expect(findings).toEqual([]);
  });

  it("opens a changed TLS listener with the secret that Envoy has already", async () => {
    const [gateway] = state.gateways ?? [];
    state = { ...state, gateways: [{ ...gateway, maxRequestBytes: 1_048_576n }] };
    mesh.wire.length = 0;
    publish();
    expect(await mesh.settled()).toEqual({ settled: true, unsettled: [] });
    expect(mesh.wire[0]).toBe("Listener: gateway gateway-tls");
    expect(mesh.wire.join()).not.toContain("Secret");
    await expect.poll(() => mesh.envoy.stat("listener_manager.total_listeners_warming"), POLL).toBe(0);
    expect(await call()).toEqual({ status: 200, serial: "03" });
  });

  it("keeps keys out of what Envoy shows", async () => {
    const response = await fetch(`http://127.0.0.1:${mesh.ports.admin}/config_dump?include_eds`);
    const dump = await response.text();
    expect(dump).toContain("certificate/default");
    for (const text of [dump, mesh.envoy.log()]) {
      for (const { keyPem } of certificates) {
        const secret = keyPem.split("\n")[1] ?? "";
        expect(secret).toHaveLength(64);
        expect(text).not.toContain(secret.slice(0, 24));
        const inBase64 = Buffer.from(keyPem).toString("base64");
        expect(text).not.toContain(inBase64.slice(40, 80));
      }
    }
  });

  it("takes the listener away without a word about its secret, and gives both back", async () => {
    const [gateway] = state.gateways ?? [];
    mesh.wire.length = 0;
    state = { ...state, gateways: [{ ...gateway, tlsPort: 0 }] };
    publish();
    expect(await mesh.settled()).toEqual({ settled: true, unsettled: [] });
    await expect.poll(() => call().catch(({ code }) => code), POLL).toBe("ECONNREFUSED");
    expect(mesh.wire).toEqual([expect.stringMatching(/^Listener: /)]);
    state = { ...state, gateways: [{ ...gateway }] };
    publish();
    await expect.poll(() => call().catch(({ code }) => code), POLL).toEqual({ status: 200, serial: "03" });
    expect(await mesh.settled()).toEqual({ settled: true, unsettled: [] });
  });
});

function notPublished(message: string): Finding {
  return { severity: "error", subject: "mesh", message };
}
