import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext, type PeerCertificate } from "node:tls";
import { ChannelCredentials } from "@grpc/grpc-js";
import { identitiesOf, identityUri, type MeshIdentity } from "./identity.js";

/** PEM files of one part of the mesh, with the flags that name them in errors. */
export interface MeshFiles {
  /** The part's certificate, followed by those of intermediate issuers. */
  readonly certificate: NamedFile;
  /** Its private key, without a passphrase. */
  readonly privateKey: NamedFile;
  /** The issuers whose certificates are taken from others. */
  readonly authorities: NamedFile;
}

export interface NamedFile {
  readonly flag: string;
  readonly path: string;
}

export interface MeshCredentialsDeps {
  /** Epoch ms. */
  wallMs(): number;
  /** Runs something once after a delay in ms; the returned function cancels it. */
  schedule(delayMs: number, run: () => void): () => void;
  readonly logger: {
    info(fields: object, message: string): void;
    warn(fields: object, message: string): void;
  };
}

/** What TLS needs of the files, as Node names it. */
export interface TlsMaterial {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca: Buffer;
}

/** What the files held when all three of them were good. */
interface Material extends TlsMaterial {
  readonly identity: MeshIdentity;
  readonly serial: string;
  readonly validFromMs: number;
  readonly validToMs: number;
}

/** A look reads three small files. */
const LOOK_EVERY_MS = 2_000;
/** The end of a certificate is told this long before, but of a short-lived one only when its renewal is overdue. */
const WARN_BEFORE_MS = 14 * 24 * 3_600_000;
const WARN_LIFE_LEFT = 1 / 6;
const CERTIFICATE_BLOCK = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/**
 * Mutual TLS of one part of the mesh (DESIGN §9): who it is, and whose certificates it takes. The files are looked at all the
 * time: new connections get a new certificate within seconds, and whatever the files come to hold, the last good set stays.
 * Names and addresses of peers count for nothing, only the one URI of their certificates does.
 */
export class MeshCredentials {
  readonly #files: MeshFiles;
  readonly #deps: MeshCredentialsDeps;
  readonly #listeners = new Set<() => void>();
  #material: Material;
  /** What is wrong with the files now, and what was at the look before: a rotation may be half done at one look. */
  #problem: string | undefined;
  #isCertain = false;
  #cancelTimer: () => void = () => undefined;

  /** @throws Error with one sentence that names the flag, when the files are not good as they are */
  constructor(files: MeshFiles, deps: MeshCredentialsDeps) {
    this.#files = files;
    this.#deps = deps;
    this.#material = readMaterial(files, deps.wallMs());
    this.#arm();
  }

  /** Who this part is. */
  get identity(): MeshIdentity {
    return this.#material.identity;
  }

  /** The certificate, key and issuers in force. */
  get tls(): TlsMaterial {
    return this.#material;
  }

  /**
   * For a connection to one kind of peer, with what is in force now: a channel that lives long has to be made anew after a
   * change. It needs `CHANNEL_OPTIONS` too.
   * @param isExpected what the peer must be; that it is of the same trust domain is checked already
   */
  channelCredentials(isExpected: (peer: MeshIdentity) => boolean): ChannelCredentials {
    const checkServerIdentity = (_host: string, { subjectaltname }: PeerCertificate): Error | undefined => {
      const identities = identitiesOf(subjectaltname);
      if (identities.some((peer) => this.isOwnDomain(peer) && isExpected(peer))) return undefined;
      return new Error(`the server's certificate is for ${shown(identities)}, which is not who is expected there`);
    };
    return ChannelCredentials.createFromSecureContext(createSecureContext(this.#material), { checkServerIdentity });
  }

  isOwnDomain({ trustDomain }: MeshIdentity): boolean {
    return trustDomain === this.identity.trustDomain;
  }

  /** Calls back whenever something else came into force; the returned function ends that. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** What is wrong with the files, or ends soon; in words that name no content. Empty when all is well. */
  problems(): string[] {
    const { validFromMs, validToMs, serial } = this.#material;
    const leftMs = validToMs - this.#deps.wallMs();
    const end = new Date(validToMs).toISOString();
    const problems =
      this.#isCertain && this.#problem !== undefined ? [`${this.#problem}; what was read before stays`] : [];
    if (leftMs <= 0) problems.push(`the certificate in force, serial ${serial}, expired on ${end}; replace the files`);
    else if (leftMs < Math.min(WARN_BEFORE_MS, (validToMs - validFromMs) * WARN_LIFE_LEFT)) {
      problems.push(`the certificate in force, serial ${serial}, expires on ${end}; replace the files before`);
    }
    return problems;
  }

  /** Looks at the files no more. */
  close(): void {
    this.#cancelTimer();
  }

  /** What this part may do was decided by who it was when it started. */
  #checkIdentity({ identity }: Material): void {
    const [before, now] = [identityUri(this.identity), identityUri(identity)];
    if (before === now) return;
    throw flaw(this.#files.certificate, `is for ${now}, but it was for ${before}; restart the process to change that`);
  }

  #arm(): void {
    this.#cancelTimer = this.#deps.schedule(LOOK_EVERY_MS, () => {
      this.#look();
      this.#arm();
    });
  }

  #look(): void {
    const before = this.#problem;
    try {
      const material = readMaterial(this.#files, this.#deps.wallMs());
      this.#checkIdentity(material);
      this.#problem = undefined;
      if (isSame(material, this.#material)) return;
      this.#material = material;
      const validTo = new Date(material.validToMs).toISOString();
      const identity = identityUri(material.identity);
      this.#deps.logger.info({ identity, serial: material.serial, validTo }, "certificate in force");
      for (const listener of this.#listeners) listener();
    } catch (error) {
      this.#problem = (error as Error).message;
    } finally {
      const wasCertain = this.#isCertain;
      this.#isCertain = this.#problem !== undefined && before !== undefined;
      if (this.#isCertain && !wasCertain)
        this.#deps.logger.warn({ problem: this.#problem }, "certificate not replaced");
    }
  }
}

/** Of a channel with these credentials: peers are told by identity, so no host name is asked of them. */
export const CHANNEL_OPTIONS = { "grpc.ssl_target_name_override": "servemesh" } as const;

/**
 * Who is at the other end of a call; nobody when the connection is not TLS, or its peer did not prove itself.
 * @param call a call of grpc-js's server
 */
export function peerOf(call: {
  getAuthContext(): { readonly sslPeerCertificate?: PeerCertificate };
}): readonly MeshIdentity[] {
  return identitiesOf(call.getAuthContext().sslPeerCertificate?.subjectaltname);
}

function isSame(a: Material, b: Material): boolean {
  return (["cert", "key", "ca"] as const).every((part) => a[part].equals(b[part]));
}

/** @throws Error that names the flag and the file */
function readMaterial(files: MeshFiles, wallMs: number): Material {
  const cert = readNamed(files.certificate);
  const key = readNamed(files.privateKey);
  const ca = readNamed(files.authorities);
  const [own] = readCertificates(files.certificate, cert);
  readCertificates(files.authorities, ca);
  if (!own.checkPrivateKey(readKey(files.privateKey, key)))
    throw flaw(files.privateKey, "does not belong to the certificate; write both files of one pair");
  const [validFromMs, validToMs] = [Date.parse(own.validFrom), Date.parse(own.validTo)];
  if (validToMs <= wallMs) throw flaw(files.certificate, `expired on ${new Date(validToMs).toISOString()}`);
  if (validFromMs > wallMs) throw flaw(files.certificate, `counts only from ${new Date(validFromMs).toISOString()}`);
  try {
    createSecureContext({ cert, key, ca });
  } catch (error) {
    throw flaw(
      files.certificate,
      `is refused by OpenSSL (${(error as NodeJS.ErrnoException).code ?? "no reason given"})`,
    );
  }
  const identity = ownIdentity(files.certificate, own);
  const serial = own.serialNumber.toLowerCase();
  return { cert, key, ca, identity, serial, validFromMs, validToMs };
}

function ownIdentity(file: NamedFile, certificate: X509Certificate): MeshIdentity {
  const [identity, ...more] = identitiesOf(certificate.subjectAltName);
  if (identity !== undefined && more.length === 0) return identity;
  const form =
    "spiffe://<trust domain>/control-plane, /gateway/<node id>, /sidecar/<node id>, /group/<name> or /batcher/<model>";
  throw flaw(
    file,
    `must name exactly one identity as URI, but names ${shown(identity ? [identity, ...more] : [])}; write ${form}`,
  );
}

function readNamed(file: NamedFile): Buffer {
  try {
    return readFileSync(file.path);
  } catch (error) {
    throw flaw(file, `cannot be read (${(error as NodeJS.ErrnoException).code ?? "unknown reason"})`);
  }
}

function readCertificates(file: NamedFile, bytes: Buffer): [X509Certificate, ...X509Certificate[]] {
  const blocks = bytes.toString("latin1").match(CERTIFICATE_BLOCK) ?? [];
  try {
    const [first, ...more] = blocks.map((block) => new X509Certificate(block));
    if (first !== undefined) return [first, ...more];
  } catch {
    throw flaw(file, "holds something as certificate that is none");
  }
  throw flaw(file, "holds no certificate in PEM");
}

function readKey(file: NamedFile, bytes: Buffer): KeyObject {
  try {
    return createPrivateKey(bytes);
  } catch {
    // The words of the library are not shown: they are about a secret.
    throw flaw(file, "holds no private key in PEM without a passphrase");
  }
}

function flaw({ flag, path }: NamedFile, words: string): Error {
  return new Error(`${flag}: "${path}" ${words}`);
}

function shown(identities: readonly MeshIdentity[]): string {
  return identities.length === 0 ? "none" : identities.map(identityUri).join(" and ");
}
