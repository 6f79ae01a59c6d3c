import type { TestCertificate } from "../xds/certificate-fixture.js";
import { readPair, SecretPair } from "./secret-pair.js";

/** A test's certificate as it is read from its files. */
export function secretPairOf({ certificatePem, keyPem }: TestCertificate): SecretPair {
  const pair = readPair(Buffer.from(certificatePem), Buffer.from(keyPem));
  if (!(pair instanceof SecretPair)) throw new Error(pair.words);
  return pair;
}
