import { describe, expect, it } from "vitest";
import type { GatewayPlan } from "../plan/mesh-plan.js";
import { ManualClock } from "../platform/manual-clock.js";
import { selfSignedCertificate, type TestCertificate } from "../xds/certificate-fixture.js";
import { PretendedFiles } from "./files-fixture.js";
import { SecretFiles } from "./secret-files.js";

const DAY_MS = 24 * 3_600_000;
const CERTIFICATE = "/tls/tls.crt";
const KEY = "/tls/tls.key";
const FIELD = { certificate: `tls_certificate_file "${CERTIFICATE}"`, key: `tls_private_key_file "${KEY}"` };

/** A gateway with a TLS listener on files in memory, and what it was told. */
class Scene {
  readonly clock = new ManualClock(0, 1_800_000_000_000);
  readonly files = new PretendedFiles();
  readonly logged: object[] = [];
  changes = 0;
  readonly secrets = new SecretFiles({
    clock: this.clock,
    files: this.files,
    logger: { info: (fields) => this.logged.push(fields) },
    onChange: () => {
      this.changes += 1;
    },
  });
  gateways: readonly GatewayPlan[] = [gateway("edge")];

  certificate(serial: number, days = 90, sinceDays = -1): TestCertificate {
    const wallMs = this.clock.wallMs();
    const [validFromMs, validToMs] = [wallMs + sinceDays * DAY_MS, wallMs + days * DAY_MS];
    return selfSignedCertificate({ serial, validFromMs, validToMs });
  }

  put({ certificatePem, keyPem }: TestCertificate): void {
    this.files.write(CERTIFICATE, certificatePem);
    this.files.write(KEY, keyPem);
  }

  get serials(): Record<string, string> {
    const { pairs } = this.secrets.provide(this.gateways);
    return Object.fromEntries([...pairs].map(([name, { serial }]) => [name, serial]));
  }

  get findings(): string[] {
    const { findings } = this.secrets.provide(this.gateways);
    return findings.map(({ severity, subject, message }) => `${severity} ${subject}: ${message}`);
  }

  /** One look at the files. */
  look(): void {
    this.clock.advance(2_000);
  }
}

function gateway(name: string, certificateFile = CERTIFICATE, privateKeyFile = KEY): GatewayPlan {
  return {
    name,
    role: "gateway",
    labels: [],
    models: undefined,
    address: "127.0.0.1",
    httpPort: 0,
    tls: { port: 8443, certificateFile, privateKeyFile },
    mesh: undefined,
    runtime: [],
    runtimeTtlMs: undefined,
    maxRequestBytes: 1,
  };
}

describe("SecretFiles", () => {
  it("has the pair at once, and a new one within 2 s of both files", () => {
    const scene = new Scene();
    scene.put(scene.certificate(1));
    expect(scene.serials).toEqual({ edge: "01" });
    expect(scene.findings).toEqual([]);
    scene.put(scene.certificate(2));
    expect(scene.serials).toEqual({ edge: "01" });
    scene.look();
    expect(scene.changes).toBe(1);
    expect(scene.serials).toEqual({ edge: "02" });
    const validTo = expect.stringMatching(/^20.*Z$/);
    expect(scene.logged).toEqual(["01", "02"].map((serial) => ({ gateway: "edge", serial, validTo })));
  });

  it("gives the same pairs and reads nothing while nothing changes", () => {
    const scene = new Scene();
    scene.put(scene.certificate(1));
    const { pairs } = scene.secrets.provide(scene.gateways);
    const { reads } = scene.files;
    for (let looks = 0; looks < 10; looks += 1) scene.look();
    expect(scene.files.reads).toBe(reads);
    expect(scene.changes).toBe(0);
    expect(scene.secrets.provide(scene.gateways).pairs).toBe(pairs);
  });

  it("gives the same pair when a file is written anew with the same content", () => {
    const scene = new Scene();
    const certificate = scene.certificate(1);
    scene.put(certificate);
    const { pairs } = scene.secrets.provide(scene.gateways);
    scene.put(certificate);
    scene.look();
    expect(scene.changes).toBe(0);
    expect(scene.secrets.provide(scene.gateways).pairs).toBe(pairs);
  });

  it.each(["certificate first", "key first"])(
    "publishes no half of a rotation, %s, and is silent about it",
    (order) => {
      const scene = new Scene();
      scene.put(scene.certificate(1));
      expect(scene.serials).toEqual({ edge: "01" });
      const next = scene.certificate(2);
      const steps = [
        () => scene.files.write(CERTIFICATE, next.certificatePem),
        () => scene.files.write(KEY, next.keyPem),
      ];
      for (const step of order === "key first" ? steps.reverse() : steps) {
        expect(scene.serials).toEqual({ edge: "01" });
        expect(scene.findings).toEqual([]);
        step();
        scene.look();
      }
      expect(scene.serials).toEqual({ edge: "02" });
      expect(scene.findings).toEqual([]);
    },
  );

  it("reads both files again when one changes while they are read", () => {
    const scene = new Scene();
    scene.put(scene.certificate(1));
    expect(scene.serials).toEqual({ edge: "01" });
    scene.put(scene.certificate(2));
    const third = scene.certificate(3);
    scene.files.afterRead = (path) => {
      if (path !== CERTIFICATE) return;
      scene.files.afterRead = () => undefined;
      scene.put(third);
    };
    scene.look();
    expect(scene.serials).toEqual({ edge: "03" });
    expect(scene.logged).toHaveLength(2);
  });

  it("waits for the next look when the files do not come to rest", () => {
    const scene = new Scene();
    const first = scene.certificate(1);
    scene.put(first);
    expect(scene.serials).toEqual({ edge: "01" });
    const second = scene.certificate(2);
    scene.put(second);
    scene.files.afterRead = () => scene.put(second);
    scene.look();
    expect(scene.serials).toEqual({ edge: "01" });
    scene.files.afterRead = () => undefined;
    scene.look();
    expect(scene.serials).toEqual({ edge: "02" });
  });

  it("sees a second write that left the time stamp as it was", () => {
    const scene = new Scene();
    const [first, second] = [scene.certificate(1), scene.certificate(2)];
    const { clock, files } = scene;
    files.write(CERTIFICATE, first.certificatePem, 0o600, clock.wallMs());
    files.write(KEY, first.keyPem, 0o600, clock.wallMs());
    expect(scene.serials).toEqual({ edge: "01" });
    files.writeUnseen(CERTIFICATE, second.certificatePem);
    files.writeUnseen(KEY, second.keyPem);
    scene.look();
    expect(scene.serials).toEqual({ edge: "02" });
  });

  it.each([
    ["is gone", (files: PretendedFiles) => files.remove(CERTIFICATE), `${FIELD.certificate} does not exist`],
    [
      "is broken",
      (files: PretendedFiles) => files.write(CERTIFICATE, "-"),
      `${FIELD.certificate} holds no certificate`,
    ],
    ["is another's", (files: PretendedFiles, other: string) => files.write(KEY, other), `${FIELD.key} does not belong`],
  ])("keeps the last good pair when a file %s, and says so when it stays so", (_, damage, words) => {
    const scene = new Scene();
    const first = scene.certificate(1);
    scene.put(first);
    expect(scene.serials).toEqual({ edge: "01" });
    damage(scene.files, scene.certificate(2).keyPem);
    scene.look();
    expect(scene.findings).toEqual([]);
    scene.look();
    expect(scene.changes).toBe(1);
    const consequence = "the certificate that was read before stays in force";
    expect(scene.findings).toEqual([expect.stringContaining(`error gateways/edge: ${words}`)]);
    expect(scene.findings[0]).toContain(consequence);
    expect(scene.serials).toEqual({ edge: "01" });
    scene.put(first);
    scene.look();
    expect(scene.findings).toEqual([]);
    expect(scene.serials).toEqual({ edge: "01" });
  });

  it("has no pair, and says so at once, when there never was a good one", () => {
    const scene = new Scene();
    expect(scene.serials).toEqual({});
    const words = "does not exist; the TLS listener is left out until there is a good pair";
    expect(scene.findings).toEqual([`error gateways/edge: ${FIELD.certificate} ${words}`]);
    scene.put(scene.certificate(1));
    scene.look();
    expect(scene.changes).toBe(1);
    expect(scene.serials).toEqual({ edge: "01" });
    expect(scene.findings).toEqual([]);
  });

  it("warns of a key that too many may read, until its mode is narrower", () => {
    const scene = new Scene();
    const first = scene.certificate(1);
    scene.put(first);
    for (const [mode, shown] of [
      [0o640, undefined],
      [0o644, "0644"],
      [0o660, "0660"],
      [0o400, undefined],
    ] as const) {
      scene.files.write(KEY, first.keyPem, mode);
      scene.look();
      const warning = `warning gateways/edge: ${FIELD.key} has mode ${shown}, so too many may use it; give it 0600 or 0640`;
      expect(scene.findings).toEqual(shown === undefined ? [] : [warning]);
    }
    expect(scene.serials).toEqual({ edge: "01" });
  });

  it("warns 14 days before the end, and reports the end, while it keeps what it has", () => {
    const scene = new Scene();
    scene.put(scene.certificate(1, 15));
    expect(scene.findings).toEqual([]);
    scene.clock.advance(DAY_MS + 2_000);
    const which = "the certificate in force, serial 01,";
    expect(scene.findings).toEqual([expect.stringContaining(`warning gateways/edge: ${which} expires on 2027-`)]);
    expect(scene.changes).toBe(1);
    scene.clock.advance(14 * DAY_MS);
    expect(scene.findings).toEqual([expect.stringContaining(`error gateways/edge: ${which} expired on 2027-`)]);
    expect(scene.changes).toBe(2);
    expect(scene.serials).toEqual({ edge: "01" });
  });

  it("does not replace a pair that counts by one that does not, and takes it when it comes to count", () => {
    const scene = new Scene();
    scene.put(scene.certificate(1));
    expect(scene.serials).toEqual({ edge: "01" });
    scene.put(scene.certificate(2, -1, -9));
    scene.look();
    expect(scene.serials).toEqual({ edge: "01" });
    const stays = "the certificate that was read before stays in force";
    expect(scene.findings).toEqual([expect.stringMatching(`error .*${CERTIFICATE}" expired on .*; ${stays}`)]);
    scene.put(scene.certificate(3, 90, 1));
    scene.look();
    expect(scene.serials).toEqual({ edge: "01" });
    expect(scene.findings).toEqual([expect.stringMatching(`error .*${CERTIFICATE}" counts only from .*; ${stays}`)]);
    scene.clock.advance(DAY_MS);
    expect(scene.serials).toEqual({ edge: "03" });
    expect(scene.findings).toEqual([]);
  });

  it("serves an expired pair rather than none, and says so", () => {
    const scene = new Scene();
    scene.put(scene.certificate(1, -1, -9));
    expect(scene.serials).toEqual({ edge: "01" });
    expect(scene.findings).toEqual([expect.stringContaining("serial 01, expired on ")]);
  });

  it("follows a record to other files, and keeps the pair of the old ones until they hold a good one", () => {
    const scene = new Scene();
    scene.put(scene.certificate(1));
    expect(scene.serials).toEqual({ edge: "01" });
    scene.gateways = [gateway("edge", "/new.crt", "/new.key")];
    expect(scene.serials).toEqual({ edge: "01" });
    expect(scene.findings).toEqual([expect.stringMatching(/^error .*"\/new.crt" does not exist; .* stays in force$/)]);
    const next = scene.certificate(2);
    scene.files.write("/new.crt", next.certificatePem);
    scene.files.write("/new.key", next.keyPem);
    scene.look();
    expect(scene.serials).toEqual({ edge: "02" });
    expect(scene.findings).toEqual([]);
  });

  it("keeps each gateway to its own files, and forgets one that is gone", () => {
    const scene = new Scene();
    scene.put(scene.certificate(1));
    const other = scene.certificate(9);
    scene.files.write("/other.crt", other.certificatePem);
    scene.files.write("/other.key", other.keyPem);
    scene.gateways = [
      gateway("edge"),
      gateway("inner", "/other.crt", "/other.key"),
      { ...gateway("plain"), tls: undefined },
    ];
    expect(scene.serials).toEqual({ edge: "01", inner: "09" });
    scene.gateways = [gateway("edge")];
    expect(scene.serials).toEqual({ edge: "01" });
    scene.files.remove("/other.crt");
    scene.gateways = [gateway("edge"), gateway("inner", "/other.crt", "/other.key")];
    expect(scene.serials).toEqual({ edge: "01" });
  });

  it("leaves no timer behind when nothing is watched", () => {
    const scene = new Scene();
    scene.put(scene.certificate(1));
    expect(scene.serials).toEqual({ edge: "01" });
    expect(scene.clock.pendingTimers).toBe(1);
    scene.gateways = [];
    expect(scene.serials).toEqual({});
    expect(scene.clock.pendingTimers).toBe(0);
    scene.gateways = [gateway("edge")];
    expect(scene.serials).toEqual({ edge: "01" });
    scene.secrets.close();
    expect(scene.serials).toEqual({ edge: "01" });
    expect(scene.clock.pendingTimers).toBe(0);
  });

  it("never tells of a key in a finding or a log line", () => {
    const scene = new Scene();
    const [first, second] = [scene.certificate(1), scene.certificate(2)];
    scene.put(first);
    const told: unknown[] = [scene.findings];
    for (const content of ["-", second.keyPem, first.keyPem.slice(0, -40), second.certificatePem]) {
      scene.files.write(KEY, content, 0o644);
      scene.look();
      scene.look();
      told.push(scene.findings);
    }
    scene.put(second);
    scene.look();
    const text = JSON.stringify([told, scene.logged]);
    for (const { keyPem } of [first, second]) expect(text).not.toContain(keyPem.split("\n")[1]?.slice(0, 12));
    expect(scene.logged).toHaveLength(2);
  });
});
