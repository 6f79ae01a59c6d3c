import type { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { describe, expect, it } from "vitest";
import type { GatewayPlan } from "../plan/mesh-plan.js";
import { planMesh } from "../plan/plan.js";
import { rankerFixture, stateOf } from "../plan/state-fixture.js";
import { secretPairOf } from "../secrets/pair-fixture.js";
import type { SecretPair } from "../secrets/secret-pair.js";
import { secretsOf } from "../snapshot/references.js";
import { selfSignedCertificate } from "../xds/certificate-fixture.js";
import { type GroupTranslation, type TranslateSettings, translateGroup } from "./translate.js";

const files = { tlsCertificateFile: "/tls/gateway.pem", tlsPrivateKeyFile: "/tls/gateway.key" };
const record = { name: "edge", httpAddress: "127.0.0.1", httpPort: 8080, tlsPort: 8443, ...files };

function gatewayOf(change: object = {}): GatewayPlan {
  const { gateways } = planMesh(stateOf({ ...rankerFixture(), gateways: [{ ...record, ...change }] }));
  if (gateways[0] === undefined) throw new Error("the record makes no gateway");
  return gateways[0];
}

const settingsWith = (secrets?: ReadonlyMap<string, SecretPair>): TranslateSettings => ({
  gate: undefined,
  transcoderDescriptor: DESCRIPTOR,
  ...(secrets === undefined ? {} : { secrets }),
});
const DESCRIPTOR = Buffer.from("descriptors");
const gateway = gatewayOf();
const certificate = selfSignedCertificate({ serial: 1 });
const one = secretPairOf(certificate);
const two = secretPairOf(selfSignedCertificate({ serial: 2 }));

function translated(settings: TranslateSettings, previous?: GroupTranslation): GroupTranslation {
  return { gateway, settings, resources: translateGroup(gateway, settings, previous) };
}

const namesOf = (listeners: readonly Listener[]): string[] => listeners.map(({ name }) => name);

describe("the certificate of a gateway", () => {
  it("is a secret under the record's name, which the TLS listener alone names", () => {
    const { listeners, secrets } = translateGroup(gateway, settingsWith(new Map([["edge", one]])));
    expect(listeners.map((listener) => [listener.name, secretsOf(listener)])).toEqual([
      ["gateway", []],
      ["gateway-tls", ["certificate/edge"]],
    ]);
    expect(secrets).toMatchObject([
      {
        name: "certificate/edge",
        type: {
          $case: "tlsCertificate",
          value: {
            certificateChain: { specifier: { $case: "inlineBytes", value: Buffer.from(one.certificateChain) } },
            privateKey: { specifier: { $case: "inlineBytes", value: Buffer.from(certificate.keyPem) } },
          },
        },
      },
    ]);
  });

  it.each([
    ["no secrets at all", settingsWith()],
    ["another gateway's only", settingsWith(new Map([["inner", one]]))],
  ])("leaves the TLS listener out when there is %s, and no other", (_, settings) => {
    const { listeners, secrets } = translateGroup(gateway, settings);
    expect(namesOf(listeners)).toEqual(["gateway"]);
    expect(secrets).toEqual([]);
  });

  it("is not given to a gateway without a TLS listener", () => {
    const plain = gatewayOf({ tlsPort: 0 });
    expect(translateGroup(plain, settingsWith(new Map([["edge", one]]))).secrets).toEqual([]);
  });

  it("changes the secret alone when it rotates, and nothing when it stays", () => {
    const first = translated(settingsWith(new Map([["edge", one]])));
    const same = translated(settingsWith(new Map([["edge", one]])), first);
    expect(same.resources.secrets).toBe(first.resources.secrets);
    expect(same.resources.listeners).toBe(first.resources.listeners);
    const rotated = translated(settingsWith(new Map([["edge", two]])), same);
    expect(rotated.resources.listeners).toBe(first.resources.listeners);
    expect(rotated.resources.secrets).not.toEqual(first.resources.secrets);
    expect(rotated.resources.secrets).toHaveLength(1);
  });

  it("opens the TLS listener when it comes", () => {
    const without = translated(settingsWith());
    const withIt = translated(settingsWith(new Map([["edge", one]])), without);
    expect(namesOf(withIt.resources.listeners)).toEqual(["gateway", "gateway-tls"]);
    expect(withIt.resources.secrets).toHaveLength(1);
    expect(namesOf(translated(settingsWith(), withIt).resources.listeners)).toEqual(["gateway"]);
  });
});
