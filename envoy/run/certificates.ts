import { webcrypto } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
// Must stand before the next import, which looks for it while it loads.
import "reflect-metadata";
import * as x509 from "@peculiar/x509";

/** Files of the development CA and of the server certificate that it signed; absolute paths if the folder's is. */
export interface CertificateFiles {
  readonly caCertificate: string;
  readonly serverCertificate: string;
  readonly serverKey: string;
}

const DAY_MS = 86_400_000;
const CA_DAYS = 3650;
/** Browsers and curl take at most 398 days. */
const SERVER_DAYS = 90;
/** A certificate with less time left is made anew, so that a long demo does not outlive it. */
const RENEW_BEFORE_DAYS = 7;
/** A clock of another machine may be a little behind. */
const BACKDATE_MS = 60 * 60_000;

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const SERVER_NAMES: x509.JsonGeneralName[] = [
  { type: "dns", value: "localhost" },
  { type: "ip", value: "127.0.0.1" },
  { type: "ip", value: "::1" },
];

/**
 * The certificates of a folder, made at the first call and renewed when they are about to expire. The CA's private key is
 * never written: a CA that nobody can use again needs no protection. Both certificates are made together.
 * @param nowMs epoch ms
 */
export async function provideCertificates(folder: string, nowMs: number): Promise<CertificateFiles> {
  const files = {
    caCertificate: join(folder, "ca.pem"),
    serverCertificate: join(folder, "server.pem"),
    serverKey: join(folder, "server.key"),
  };
  if (areUsable(files, nowMs)) return files;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  x509.cryptoProvider.set(webcrypto);
  const caKeys = await newKeys();
  const ca = await makeCa(caKeys, nowMs);
  const serverKeys = await newKeys();
  const server = await makeServerCertificate(ca, caKeys, serverKeys, nowMs);
  const key = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", serverKeys.privateKey));
  write(files.serverKey, x509.PemConverter.encode(key, "PRIVATE KEY"), 0o600);
  write(files.caCertificate, ca.toString("pem"), 0o644);
  // Last, because its presence says that the set is complete.
  write(files.serverCertificate, server.toString("pem"), 0o644);
  return files;
}

function areUsable(files: CertificateFiles, nowMs: number): boolean {
  if (!Object.values(files).every((file) => existsSync(file))) return false;
  const expiresMs = new x509.X509Certificate(readFileSync(files.serverCertificate, "utf8")).notAfter.getTime();
  return expiresMs - nowMs > RENEW_BEFORE_DAYS * DAY_MS;
}

function newKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
}

function makeCa(keys: webcrypto.CryptoKeyPair, nowMs: number): Promise<x509.X509Certificate> {
  return x509.X509CertificateGenerator.createSelfSigned({
    name: "CN=servemesh development CA",
    keys,
    signingAlgorithm: ALGORITHM,
    notBefore: new Date(nowMs - BACKDATE_MS),
    notAfter: new Date(nowMs + CA_DAYS * DAY_MS),
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
    ],
  });
}

async function makeServerCertificate(
  ca: x509.X509Certificate,
  caKeys: webcrypto.CryptoKeyPair,
  serverKeys: webcrypto.CryptoKeyPair,
  nowMs: number,
): Promise<x509.X509Certificate> {
  return x509.X509CertificateGenerator.create({
    subject: "CN=localhost",
    issuer: ca.subject,
    publicKey: serverKeys.publicKey,
    signingKey: caKeys.privateKey,
    signingAlgorithm: ALGORITHM,
    notBefore: new Date(nowMs - BACKDATE_MS),
    notAfter: new Date(nowMs + SERVER_DAYS * DAY_MS),
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(SERVER_NAMES),
      await x509.AuthorityKeyIdentifierExtension.create(ca),
    ],
  });
}

/** Written beside and moved, so that a reader never sees half a file. */
function write(path: string, text: string, mode: number): void {
  writeFileSync(`${path}.new`, `${text}\n`, { mode });
  renameSync(`${path}.new`, path);
}
