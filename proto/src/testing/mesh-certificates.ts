import { webcrypto } from "node:crypto";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
// Must stand before the next import, which looks for it while it loads.
import "reflect-metadata";
import * as x509 from "@peculiar/x509";
import type { MeshFiles } from "../mesh-credentials.js";

/** What a test needs to be otherwise. */
export interface TestIdentitySettings {
  /** Epoch ms; an hour before and after now by default. */
  readonly validFromMs?: number;
  readonly validToMs?: number;
}

/** One part's certificate and key; PEM. */
export interface TestIdentity {
  readonly certificatePem: string;
  readonly keyPem: string;
}

const HOUR_MS = 3_600_000;
const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

/** An issuer of certificates for the parts of a mesh, for tests. */
export class TestAuthority {
  readonly #keys: webcrypto.CryptoKeyPair;
  readonly #certificate: x509.X509Certificate;

  private constructor(keys: webcrypto.CryptoKeyPair, certificate: x509.X509Certificate) {
    this.#keys = keys;
    this.#certificate = certificate;
  }

  static async create(name = "servemesh test CA"): Promise<TestAuthority> {
    x509.cryptoProvider.set(webcrypto);
    const keys = await newKeys();
    const certificate = await x509.X509CertificateGenerator.createSelfSigned({
      name: `CN=${name}`,
      keys,
      signingAlgorithm: ALGORITHM,
      notBefore: new Date(Date.now() - HOUR_MS),
      notAfter: new Date(Date.now() + 24 * HOUR_MS),
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
      ],
    });
    return new TestAuthority(keys, certificate);
  }

  get pem(): string {
    return `${this.#certificate.toString("pem")}\n`;
  }

  /** A certificate for both ends of a connection. @param uris its identities, as they stand in it */
  async issue(uris: readonly string[], settings: TestIdentitySettings = {}): Promise<TestIdentity> {
    const keys = await newKeys();
    const certificate = await x509.X509CertificateGenerator.create({
      subject: "CN=servemesh test",
      issuer: this.#certificate.subject,
      publicKey: keys.publicKey,
      signingKey: this.#keys.privateKey,
      signingAlgorithm: ALGORITHM,
      notBefore: new Date(settings.validFromMs ?? Date.now() - HOUR_MS),
      notAfter: new Date(settings.validToMs ?? Date.now() + HOUR_MS),
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth]),
        new x509.SubjectAlternativeNameExtension(uris.map((value) => ({ type: "url", value }))),
      ],
    });
    const key = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", keys.privateKey));
    return { certificatePem: `${certificate.toString("pem")}\n`, keyPem: x509.PemConverter.encode(key, "PRIVATE KEY") };
  }
}

/** A folder with the three files of one part of a mesh. */
export class TestMeshFolder {
  readonly path = mkdtempSync(join(tmpdir(), "servemesh-identity-"));
  readonly certificate = join(this.path, "identity.pem");
  readonly privateKey = join(this.path, "identity.key");
  readonly authorities = join(this.path, "ca.pem");

  /** Writes, or replaces, all three. */
  write({ certificatePem, keyPem }: TestIdentity, authoritiesPem: string): this {
    put(this.privateKey, keyPem);
    put(this.certificate, certificatePem);
    put(this.authorities, authoritiesPem);
    return this;
  }

  /** As a command line names them. */
  get files(): MeshFiles {
    return {
      certificate: { flag: "--tls-certificate", path: this.certificate },
      privateKey: { flag: "--tls-key", path: this.privateKey },
      authorities: { flag: "--tls-ca", path: this.authorities },
    };
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

function newKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
}

/** Moved into place, so that a reader never sees half a file. */
function put(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
