import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { inspect } from "node:util";

/** A certificate chain and its private key that were checked to belong together. Whatever prints it prints no key. */
export class SecretPair {
  /** PEM; the server's own certificate first. */
  readonly certificateChain: string;
  /** Serial number of the server's certificate, as hex. */
  readonly serial: string;
  /** Epoch ms from which the server's certificate counts, and to which it does. */
  readonly validFromMs: number;
  readonly validToMs: number;
  readonly #privateKey: string;

  constructor(chain: readonly [X509Certificate, ...X509Certificate[]], privateKey: KeyObject) {
    const [own] = chain;
    this.certificateChain = chain.map((certificate) => certificate.toString()).join("");
    this.serial = own.serialNumber.toLowerCase();
    this.validFromMs = Date.parse(own.validFrom);
    this.validToMs = Date.parse(own.validTo);
    this.#privateKey = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  }

  /** PEM (PKCS #8). A method, so that no printer of objects comes by it. */
  privateKey(): string {
    return this.#privateKey;
  }

  isValidAt(wallMs: number): boolean {
    return this.validFromMs <= wallMs && wallMs < this.validToMs;
  }

  equals(other: SecretPair | undefined): boolean {
    return this.certificateChain === other?.certificateChain && this.#privateKey === other.#privateKey;
  }

  [inspect.custom](): string {
    return `SecretPair ${this.serial}`;
  }
}

/** What is wrong with which file of a pair; the words name no content. */
export interface PairProblem {
  readonly file: "certificate" | "privateKey";
  readonly words: string;
}

const CERTIFICATE_BLOCK = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;
const ENCRYPTED_KEY = /BEGIN ENCRYPTED PRIVATE KEY|Proc-Type: 4,ENCRYPTED/;
/** What Envoy takes for a server; of anything else its listener would wait for another certificate for ever. */
const RSA_BITS_MIN = 2048;
const CURVES: ReadonlySet<string> = new Set(["prime256v1", "secp384r1", "secp521r1"]);

/**
 * Reads a pair from the contents of its files. What is checked is what is sent: whatever else is in the files stays here.
 */
export function readPair(certificateFile: Buffer, privateKeyFile: Buffer): SecretPair | PairProblem {
  const chain = readChain(certificateFile);
  if (!Array.isArray(chain)) return { file: "certificate", words: chain };
  const key = readPrivateKey(privateKeyFile);
  if (typeof key === "string") return { file: "privateKey", words: key };
  const [own, ...issuers] = chain;
  if (own === undefined) return { file: "certificate", words: "holds no certificate in PEM" };
  if (!own.checkPrivateKey(key)) {
    const words = "does not belong to the first certificate of the chain; write both files of one pair";
    return { file: "privateKey", words };
  }
  const weakness = weaknessOf(key);
  if (weakness !== undefined) return { file: "privateKey", words: weakness };
  return new SecretPair([own, ...issuers], key);
}

/** @returns what is wrong with the file, in words */
function readChain(file: Buffer): X509Certificate[] | string {
  const blocks = file.toString("latin1").match(CERTIFICATE_BLOCK) ?? [];
  const chain: X509Certificate[] = [];
  for (const [index, block] of blocks.entries()) {
    try {
      chain.push(new X509Certificate(block));
    } catch {
      return `holds something as certificate ${index + 1} that is none`;
    }
  }
  return chain;
}

function readPrivateKey(file: Buffer): KeyObject | string {
  try {
    return createPrivateKey(file);
  } catch {
    // The words of the library are not shown: they are about a secret.
    return ENCRYPTED_KEY.test(file.toString("latin1"))
      ? "is encrypted; write the key without a passphrase"
      : "holds no private key in PEM";
  }
}

function weaknessOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): string | undefined {
  const bits = asymmetricKeyDetails?.modulusLength ?? 0;
  if (asymmetricKeyType === "rsa" && bits >= RSA_BITS_MIN) return undefined;
  if (asymmetricKeyType === "ec" && CURVES.has(asymmetricKeyDetails?.namedCurve ?? "")) return undefined;
  return "is of a kind that Envoy does not take; use RSA with 2048 bits or more, or ECDSA with P-256, P-384 or P-521";
}
