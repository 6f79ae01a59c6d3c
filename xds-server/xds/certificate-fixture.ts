import { generateKeyPairSync, type KeyPairKeyObjectResult, sign } from "node:crypto";

/** A self-signed certificate for 127.0.0.1 and its key; both PEM. */
export interface TestCertificate {
  readonly certificatePem: string;
  readonly keyPem: string;
}

/** What a test needs to be otherwise. */
export interface TestCertificateSettings {
  /** 1 to 127, and part of the name, so that a client may trust several; 1 by default. */
  readonly serial?: number;
  /** Epoch ms; half a day before and after now by default. Whole seconds count. */
  readonly validFromMs?: number;
  readonly validToMs?: number;
  /** ECDSA with P-256 by default. */
  readonly keys?: KeyPairKeyObjectResult;
}

const DAY_MS = 24 * 3_600_000;
const TAG = {
  integer: 0x02,
  bits: 0x03,
  octets: 0x04,
  oid: 0x06,
  utf8: 0x0c,
  utcTime: 0x17,
  sequence: 0x30,
  set: 0x31,
};
const ECDSA_WITH_SHA256 = Buffer.from("2a8648ce3d040302", "hex");
const RSA_WITH_SHA256 = Buffer.from("2a864886f70d01010b", "hex");
const COMMON_NAME = Buffer.from("550403", "hex");
const SUBJECT_ALT_NAME = Buffer.from("551d11", "hex");
const IP_ADDRESS = 0x87;

/** Made by hand (RFC 5280), because Node signs but writes no certificates, and a test needs no more than this. */
export function selfSignedCertificate(settings: TestCertificateSettings = {}): TestCertificate {
  const { serial = 1, validFromMs = Date.now() - DAY_MS / 2, validToMs = Date.now() + DAY_MS / 2 } = settings;
  const { publicKey, privateKey } = settings.keys ?? generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const isRsa = privateKey.asymmetricKeyType === "rsa";
  const algorithm = der(TAG.sequence, der(TAG.oid, isRsa ? RSA_WITH_SHA256 : ECDSA_WITH_SHA256));
  const name = der(
    TAG.sequence,
    der(TAG.set, der(TAG.sequence, der(TAG.oid, COMMON_NAME), der(TAG.utf8, Buffer.from(`servemesh test ${serial}`)))),
  );
  const altNames = der(TAG.sequence, der(IP_ADDRESS, Buffer.from([127, 0, 0, 1])));
  const extension = der(TAG.sequence, der(TAG.oid, SUBJECT_ALT_NAME), der(TAG.octets, altNames));
  const body = der(
    TAG.sequence,
    der(0xa0, der(TAG.integer, Buffer.from([2]))),
    der(TAG.integer, Buffer.from([serial])),
    algorithm,
    name,
    der(TAG.sequence, utcTime(validFromMs), utcTime(validToMs)),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, der(TAG.sequence, extension)),
  );
  const signature = der(TAG.bits, Buffer.from([0]), sign("sha256", body, privateKey));
  const certificate = der(TAG.sequence, body, algorithm, signature);
  return {
    certificatePem: `-----BEGIN CERTIFICATE-----\n${certificate.toString("base64").replace(/.{64}/g, "$&\n")}\n-----END CERTIFICATE-----\n`,
    keyPem: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  };
}

function utcTime(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replace(/[-:T]/g, "").slice(2, 14);
  return der(TAG.utcTime, Buffer.from(`${digits}Z`));
}

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head =
    length < 0x80 ? [tag, length] : length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from(head), content]);
}
