import { generateKeyPairSync } from "node:crypto";
import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { selfSignedCertificate, type TestCertificate } from "../xds/certificate-fixture.js";
import { readPair, SecretPair } from "./secret-pair.js";

const bytes = (pem: string): Buffer => Buffer.from(pem);
const read = ({ certificatePem, keyPem }: TestCertificate) => readPair(bytes(certificatePem), bytes(keyPem));
const good = selfSignedCertificate({ serial: 7 });
const other = selfSignedCertificate({ serial: 8 });

describe("readPair", () => {
  it("takes a chain and its key, and only them", () => {
    const chainFile = `subject=/CN=x\n${good.certificatePem}issuer\n${other.certificatePem}${other.keyPem}`;
    const pair = readPair(bytes(chainFile), bytes(`${good.keyPem}${other.keyPem}`));
    if (!(pair instanceof SecretPair)) throw new Error(pair.words);
    expect(pair.serial).toBe("07");
    expect(pair.certificateChain).toBe(`${good.certificatePem}${other.certificatePem}`);
    expect(pair.privateKey()).toBe(good.keyPem);
    expect(pair.equals(read(good) as SecretPair)).toBe(false);
    expect((read(good) as SecretPair).equals(read(good) as SecretPair)).toBe(true);
  });

  it("takes RSA with 2048 bits and the curves that Envoy takes", () => {
    const kinds = [
      generateKeyPairSync("rsa", { modulusLength: 2048 }),
      generateKeyPairSync("ec", { namedCurve: "secp384r1" }),
      generateKeyPairSync("ec", { namedCurve: "secp521r1" }),
    ];
    for (const keys of kinds) expect(read(selfSignedCertificate({ keys }))).toBeInstanceOf(SecretPair);
  });

  it.each([
    ["RSA with 1024 bits", generateKeyPairSync("rsa", { modulusLength: 1024 })],
    ["another curve", generateKeyPairSync("ec", { namedCurve: "secp256k1" })],
  ])("refuses %s", (_, keys) => {
    const words = expect.stringContaining("kind that Envoy does not take");
    expect(read(selfSignedCertificate({ keys }))).toEqual({ file: "privateKey", words });
  });

  const key = good.keyPem.split("\n")[1] ?? "";
  const encrypted = generateKeyPairSync("ec", { namedCurve: "prime256v1" }).privateKey.export({
    type: "pkcs8",
    format: "pem",
    cipher: "aes-256-cbc",
    passphrase: "secret",
  });
  const broken = good.certificatePem.replace(/^MII/m, "AAA");
  it.each([
    ["an empty certificate file", "", good.keyPem, "certificate", "holds no certificate in PEM"],
    ["a key for a certificate", good.keyPem, good.keyPem, "certificate", "holds no certificate in PEM"],
    ["a broken certificate", broken, good.keyPem, "certificate", "as certificate 1 that is none"],
    ["a broken link", `${good.certificatePem}${broken}`, good.keyPem, "certificate", "as certificate 2 that is none"],
    ["half a key", good.certificatePem, good.keyPem.slice(0, -60), "privateKey", "holds no private key in PEM"],
    ["an empty key file", good.certificatePem, "", "privateKey", "holds no private key in PEM"],
    ["a certificate for a key", good.certificatePem, good.certificatePem, "privateKey", "holds no private key in PEM"],
    ["an encrypted key", good.certificatePem, String(encrypted), "privateKey", "without a passphrase"],
    ["another key", good.certificatePem, other.keyPem, "privateKey", "does not belong to the first certificate"],
    ["a chain in the wrong order", `${other.certificatePem}${good.certificatePem}`, good.keyPem, "privateKey", "first"],
  ])("says what is wrong with %s, and shows nothing of it", (_, certificate, privateKey, file, words) => {
    const problem = readPair(bytes(certificate), bytes(privateKey));
    expect(problem).toEqual({ file, words: expect.stringContaining(words) });
    expect(JSON.stringify(problem)).not.toContain(key.slice(0, 12));
  });
});

describe("SecretPair", () => {
  it("knows when it counts", () => {
    const validFromMs = 1_700_000_000_000;
    const pair = read(selfSignedCertificate({ validFromMs, validToMs: validFromMs + 60_000 })) as SecretPair;
    expect([pair.validFromMs, pair.validToMs]).toEqual([validFromMs, validFromMs + 60_000]);
    const at = [-1, 0, 59_999, 60_000].map((ms) => pair.isValidAt(validFromMs + ms));
    expect(at).toEqual([false, true, true, false]);
  });

  it("prints no key, however it is printed", () => {
    const pair = read(good) as SecretPair;
    const printed = [inspect(pair, { showHidden: true, depth: 9 }), JSON.stringify(pair), String(pair)];
    printed.push(JSON.stringify({ ...pair }), JSON.stringify(Object.getOwnPropertyDescriptors(pair)));
    const line = good.keyPem.split("\n")[1] ?? "";
    for (const text of printed) expect(text).not.toContain(line.slice(0, 12));
    expect(line).toHaveLength(64);
  });
});
